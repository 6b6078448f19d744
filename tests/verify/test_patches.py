"""``slowtrain verify`` with somebody's own idea: which patches it takes, what it says of others; no process is run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slowtrain import cli
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Script

from . import probing

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed here"
)

LOSSES = tuple({"loss": 1.0 / (i + 1)} for i in range(20))
CHANGED = "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n-pace = 'slow'\n+pace = 'fast'\n steps = 9\n"
ADDED = "--- /dev/null\n+++ b/lib/paces.py\n@@ -0,0 +1 @@\n+FAST = 'fast'\n"
TEXT = "pace = 'slow'\nsteps = 9\n"

Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(name="seen")
def the_texts_of_candidates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Mapping[str, str]]:
    """A folder with a script; a probe takes a quarter of the time where a candidate says that it is fast."""
    seen: list[Mapping[str, str]] = []

    def run(_script: Script, candidate: Candidate, _rule: Rule, folder: Path, **_options: Any) -> Probe:
        folder.mkdir()
        if candidate.texts:
            seen.append(candidate.texts)
        ms = (1.0 if "fast" in "".join(candidate.texts.values()) else 4.0) * (1 + 0.001 * (len(seen) % 3))
        return Probe(folder, 10 * ms, ms, ms, False, 0.1, LOSSES)

    probing.write(tmp_path, TEXT, "train.py")
    monkeypatch.setattr(probe_process, "run_probe", run)
    monkeypatch.chdir(tmp_path)
    return seen


def verify(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer."""
    code = cli.main(["verify", "--json", "answer.json", *arguments])
    answer = Path("answer.json")
    return code, json.loads(answer.read_text())["fix"] if answer.exists() else {}


@pytest.mark.parametrize(
    "patch",
    [
        CHANGED,
        CHANGED.replace("a/", "").replace("b/", ""),
        "diff --git a/train.py b/train.py\nindex 1..2 100644\n" + CHANGED,
        CHANGED.replace("a/train.py", "train.py\t2026-11-25 10:00").replace(
            "b/train.py", "faster.py\t2026-11-25 11:00"
        ),
    ],
    ids=["git", "no prefix", "with git's own header", "diff -u of two files"],
)
def test_a_patch_of_the_script(patch: str, seen: list[Mapping[str, str]], tmp_path: Path) -> None:
    (tmp_path / "my.diff").write_text(patch)
    code, found = verify("--patch", "my.diff", "train.py")
    assert (code, found["outcome"], found["written"]) == (0, "better", False)
    assert seen[0] == {str(tmp_path / "train.py"): TEXT.replace("slow", "fast")}
    assert found["diff"].splitlines()[:2] == ["--- a/train.py", "+++ b/train.py"]
    assert (tmp_path / "train.py").read_text() == TEXT


def test_a_patch_that_adds_a_file(seen: list[Mapping[str, str]], tmp_path: Path) -> None:
    (tmp_path / "my.diff").write_text(ADDED + CHANGED.replace("'fast'", "__import__('lib.paces').paces.FAST"))
    code, found = verify("--patch", "my.diff", "train.py")
    assert (code, found["outcome"]) == (0, "better")
    assert seen[0][str(tmp_path / "lib" / "paces.py")] == "FAST = 'fast'\n"
    assert found["diff"].splitlines()[:2] == ["--- /dev/null", "+++ b/lib/paces.py"]
    assert not (tmp_path / "lib").exists()
    (tmp_path / "again.diff").write_text(found["diff"])
    subprocess.run(["git", "apply", "again.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "lib" / "paces.py").read_text() == "FAST = 'fast'\n"


def test_a_patch_as_git_writes_it_in_a_folder_of_a_repository(
    seen: list[Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    script = probing.write(tmp_path, TEXT, "exp/train.py")
    (tmp_path / "exp" / "my.diff").write_text(CHANGED.replace("/train", "/exp/train"))
    monkeypatch.chdir(tmp_path / "exp")
    code, found = verify("--patch", "my.diff", "train.py")
    assert (code, found["outcome"]) == (0, "better")
    assert set(seen[0]) == {str(script)}


def test_a_patch_that_does_not_help(seen: list[Mapping[str, str]], tmp_path: Path) -> None:
    (tmp_path / "my.diff").write_text(CHANGED.replace("fast", "as before"))
    code, found = verify("--patch", "my.diff", "train.py")
    assert (code, found["kept"]) == (1, [])
    assert seen


def test_another_version_of_the_script(seen: list[Mapping[str, str]], tmp_path: Path) -> None:
    probing.write(tmp_path, TEXT.replace("slow", "fast"), "faster.py")
    code, found = verify("--baseline", "train.py", "--candidate", "faster.py", "data.csv")
    assert (code, found["outcome"]) == (0, "better")
    assert seen[0] == {str(tmp_path / "train.py"): TEXT.replace("slow", "fast")}


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (None, "cannot read the patch my.diff"),
        ("faster, please\n", "my.diff is not a unified diff; make one with `git diff`"),
        (CHANGED.replace("steps = 9", "steps = 8"), "my.diff does not apply (error: patch failed: train.py:1)"),
        (CHANGED.replace("train.py", "gone.py"), "my.diff changes gone.py, which is not a file in"),
        (CHANGED.replace("a/train.py", "a/../train.py"), "my.diff changes ../train.py, which is not a path relative"),
        (CHANGED.replace("a/train.py", "/opt/train.py"), "my.diff changes /opt/train.py, which is not a path relative"),
        (
            CHANGED.replace("train.py", "train.yaml"),
            "my.diff changes train.yaml, but a candidate may change only Python files",
        ),
        (CHANGED.replace("b/train.py", "/dev/null"), "my.diff removes train.py, but a candidate must keep all files"),
        (ADDED.replace("lib/paces", "train"), "my.diff adds train.py, which already exists in"),
    ],
)
def test_a_patch_that_is_none(
    patch: str | None, said: str, seen: list[Mapping[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if patch is not None:
        (tmp_path / "my.diff").write_text(patch)
    assert verify("--patch", "my.diff", "train.py") == (2, {})
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith(f"slowtrain: {said}")
    assert not seen
    assert not (tmp_path / "slowtrain-runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--patch", "my.diff"], "give --patch FILE or --treat NAMES and a script, or --baseline"),
        (["--patch", "my.diff", "--baseline", "train.py", "train.py"], "give --patch FILE or --treat NAMES and"),
        (["--baseline", "train.py"], "give --patch FILE or --treat NAMES and a script, or --baseline"),
        (["--baseline", "train.py", "--candidate", "gone.py"], "cannot read gone.py (No such file or directory)"),
        (["--baseline", "gone.py", "--candidate", "train.py"], "cannot read gone.py (No such file or directory)"),
    ],
)
def test_what_is_not_given(
    arguments: list[str], said: str, seen: list[Mapping[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.diff").write_text(CHANGED)
    assert verify(*arguments) == (2, {})
    assert capsys.readouterr().err.startswith(f"slowtrain: {said}")
    assert not seen
