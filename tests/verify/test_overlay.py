"""A candidate's text stands in for the file: in the main program, in modules, in children, in what reads sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from slowtrain.verify.measurement import edited_files

from . import probing

ABOUT = """
import dataclasses, inspect, json, os, pickle, sys, traceback
MARK = "on the disk"


@dataclasses.dataclass
class Point:
    x: int = 1


def twice(x):
    # of the user's
    return 2 * x


def about():
    try:
        1 / 0
    except ZeroDivisionError as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
    main = sys.modules["__main__"]
    return {
        "mark": MARK, "file": __file__, "name": __name__, "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(),
        "package": __package__, "main": main.__file__, "line": [line.lineno, line.line], "stdin": not sys.stdin.closed,
        "source": inspect.getsource(twice), "point": pickle.loads(pickle.dumps(Point(3))).x,
        "doc": __doc__, "cached": getattr(__spec__, "name", None),
        "names": sorted(n for n in vars(main) if n[0] != "_"),
        "orig": sys.orig_argv[1:],
    }
"""
MAIN = """
if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(about(), file)
"""


def changed(text: str) -> str:
    """The candidate: a line more at the top, another mark."""
    return "# a line more\n" + text.replace("on the disk", "of the candidate").replace("of the user's", "of ours")


def run(target: str, texts: dict[str, str], tmp_path: Path, module: bool = False) -> Any:
    """What ``target`` tells of itself in a probe with ``texts``. It writes below the probe's own folder."""
    reading = tmp_path / "runs"
    found = probing.probed(target, str(reading / "probe-0" / "answer.json"), to=reading, texts=texts, module=module)
    assert found.failed is None
    return json.loads((found.folder / "answer.json").read_text())


def plainly(target: list[str], folder: Path) -> Any:
    subprocess.run([sys.executable, *target, "answer.json"], cwd=folder, check=True, timeout=60)
    return json.loads((folder / "answer.json").read_text())


def same(probe: Any, plain: Any) -> None:
    """What differs by its nature is left out."""
    for one in (probe, plain):
        one["argv"] = one["argv"][:-1]
        one["orig"] = one["orig"][:-1]
    assert probe == plain


@pytest.mark.parametrize("kind", ["script", "absolute", "folder", "module", "package"])
def test_a_candidate_runs_as_if_it_were_on_the_disk(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f'"""A page."""\n{ABOUT}{MAIN}'
    name = {"folder": "app/__main__.py", "module": "pkg/part.py", "package": "pkg/__main__.py"}.get(
        kind, "sub/train.py"
    )
    shadow, project = tmp_path / "shadow", tmp_path / "project"
    for folder, content in ((project, text), (shadow, changed(text))):
        probing.write(folder, content, name)
        if kind in ("module", "package"):
            probing.write(folder, "", "pkg/__init__.py")
    target = {"folder": "app", "module": "pkg.part", "package": "pkg", "absolute": str(project / name)}.get(kind, name)
    module = kind in ("module", "package")
    monkeypatch.chdir(project)
    before = probing.state(project)
    told = run(target, {str(project / name): changed(text)}, tmp_path, module)
    assert told["mark"] == "of the candidate"
    assert told["point"] == 3
    assert "of ours" in told["source"]
    assert told["line"][1] == "1 / 0"
    assert probing.state(project) == before  # no __pycache__ either
    plain = plainly([*(["-m"] if module else []), target.replace(str(project), str(shadow))], shadow)
    same(json.loads(json.dumps(told).replace(str(project), str(shadow))), plain)


def test_modules_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    probing.write(
        project,
        "from lib.deep import part\nimport lib, top, json, sys\n"
        "json.dump([part.MARK, lib.MARK, top.MARK, part.__file__], open(sys.argv[1], 'w'))",
        "main.py",
    )
    for name in ("lib/__init__.py", "lib/deep/__init__.py", "lib/deep/part.py", "top.py"):
        probing.write(project, "MARK = 'on the disk'\n", name)
    # Bytecode of the files as they are, which must not be read.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    plainly_import = f"import sys; sys.path.insert(0, {str(project)!r}); import lib.deep.part, top"
    subprocess.run([sys.executable, "-c", plainly_import], check=True, timeout=60, env=environment)
    assert list(project.rglob("*.pyc"))
    monkeypatch.chdir(project)
    before = probing.state(project)
    part = str(project / "lib/deep/part.py")
    texts = {part: "MARK = 'patched'\n", str(project / "lib/__init__.py"): "MARK = 'patched too'\n"}
    told = run("main.py", texts, tmp_path)
    assert told == ["patched", "patched too", "on the disk", part]
    assert probing.state(project) == before


def test_modules_that_the_candidate_adds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    main = probing.write(project, "raise SystemExit('of the disk')", "main.py")
    probing.write(project, "MARK = 'on the disk'\n", "old/__init__.py")
    monkeypatch.chdir(project)
    before = probing.state(project)
    texts = {
        str(main): "from old import part\nimport new.deep, json, sys\n"
        "json.dump([part.MARK, new.MARK, new.deep.MARK, part.__file__], open(sys.argv[1], 'w'))",
        str(project / "old/part.py"): "MARK = 'beside what is there'\n",
        str(project / "new/__init__.py"): "MARK = 'a package'\n",
        str(project / "new/deep.py"): "from . import MARK\nMARK += ' of its own'\n",
    }
    told = run("main.py", texts, tmp_path)
    assert told == ["beside what is there", "a package", "a package of its own", str(project / "old/part.py")]
    assert probing.state(project) == before


@pytest.mark.parametrize(
    "content",
    [
        "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"),
        b"\xef\xbb\xbfx = '\xc3\xa9'\n",
        "x = 'é'\r\n\r\n".encode(),
        "\x0cx = 'é'\n\x0c\n".encode(),
    ],
    ids=["latin-1", "byte-order mark", "CRLF", "form feeds"],
)
def test_encodings(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = (
        "import inspect, json, sys, traceback\n\ndef f():\n    # é\n    return x\n\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    line = traceback.extract_tb(error.__traceback__)[0]\n"
        "json.dump([f(), inspect.getsource(f), line.lineno, line.line], open(sys.argv[1], 'w'))\n"
    )
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    encoding = "latin-1" if b"latin-1" in content else "utf-8"
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_bytes(content + rest.replace("\n", newline.decode()).encode(encoding))
    monkeypatch.chdir(script.parent)
    texts = {str(script): edited_files.decode_source(script.read_bytes())}
    mine = run("train.py", texts, tmp_path)
    assert mine == plainly(["train.py"], script.parent)
    assert mine[0] == "é"
    assert mine[1:] == ["def f():\n    # é\n    return x\n", content.count(b"\n") + 8, "1 / 0"]


CHILDREN = """
    import json, multiprocessing, os, sys

    MARK = "on the disk"

    class Task:
        pass

    def work(pipe, name):
        import top
        with open(name, "w") as file:
            file.write("by a child")
        pipe.send([MARK, top.MARK, Task(), open(name).read()])

    if __name__ == "__main__":
        found = []
        for method in ("fork", "spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            mine, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, method + ".txt"))
            process.start()
            assert mine.poll(8), method
            mark, top, task, text = mine.recv()
            process.join()
            found.append([method, mark, top, type(task) is Task, text, open(method + ".txt").read()])
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.map(abs, [-1]))
        json.dump(found, open(sys.argv[1], "w"))
"""


def test_children_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    script = probing.write(project, CHILDREN)
    top = probing.write(project, "MARK = 'on the disk'\n", "top.py")
    for method in ("fork", "spawn"):
        probing.write(project, "of the user's", f"{method}.txt")
    monkeypatch.chdir(project)
    before = probing.state(project)
    texts = {str(script): textwrap.dedent(CHILDREN).replace("on the disk", "patched"), str(top): "MARK = 'patched'\n"}
    *found, pool = run("script.py", texts, tmp_path)
    assert found == [
        [method, "patched", "patched", True, "by a child", "by a child"] for method in ("fork", "spawn", "forkserver")
    ]
    assert pool == [1]
    assert probing.state(project) == before


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("import sys\nsys.exit()", None),
        ("import sys\nsys.exit('no data')", "exit code 1: no data"),
        ("import sys\nsys.exit(3)", "exit code 3: nothing was printed"),
        ("def f(:", "exit code 1: SyntaxError: "),
        ("x = input()", "exit code 1: EOFError: EOF when reading a line"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11"),
        ("import gone_for_ever", "ModuleNotFoundError: No module named 'gone_for_ever'"),
    ],
)
def test_how_a_script_ends(text: str, failed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = probing.write(tmp_path / "project", text)
    monkeypatch.chdir(script.parent)
    found = probing.probed(script.name, to=tmp_path / "runs")
    if failed is None:
        assert found.failed is None
    else:
        assert failed in str(found.failed), found


def test_what_is_read_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = probing.write(tmp_path / "project", "import sys\nassert sys.stdin.read() == 'two\\nlines\\n', 'other'")
    monkeypatch.chdir(script.parent)
    for _ in range(2):
        assert probing.probed(script.name, to=tmp_path / "runs", stdin=b"two\nlines\n").failed is None


AUTOGRAPH = """
    import json, sys
    import tensorflow as tf

    @tf.function
    def clipped(values):
        total = 0.0
        for value in values:
            if value > 0.0:
                total += value
        return total

    json.dump(float(clipped(tf.constant([1.0, -2.0, 3.0]))), open(sys.argv[1], "w"))
"""


@pytest.mark.tensorflow
def test_autograph_reads_the_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = probing.write(tmp_path / "project", AUTOGRAPH)
    monkeypatch.chdir(script.parent)
    text = "# a line more\n" + textwrap.dedent(AUTOGRAPH).replace("value > 0.0", "value < 0.0")
    assert run("script.py", {str(script): text}, tmp_path) == -2.0
