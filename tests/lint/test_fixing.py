"""Edits: what is made, that nothing else changes, and that a further pass has nothing left to do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from slowtrain.causes import all_causes
from slowtrain.lint import file_fixes, lint_settings
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.model.inspections import SAFE_EFFECTS
from slowtrain.script.text.source_file import Source

from .linting import CURED, EAGER, PIPELINE, Folder


def test_fix_makes_safe_edits_until_none_is_left(folder: Folder) -> None:
    folder.put(a__py=PIPELINE, b__py=EAGER)
    assert folder.lint("--fix") == 1
    assert folder.text("a.py") == CURED
    assert folder.text("b.py") == EAGER
    assert "2 findings fixed; 1 finding in 2 files." in folder.out
    before = {name: os.stat(name).st_mtime_ns for name in ("a.py", "b.py")}
    assert folder.lint("--fix") == 1
    assert {name: os.stat(name).st_mtime_ns for name in ("a.py", "b.py")} == before


def test_unsafe_fixes_makes_all(folder: Folder) -> None:
    folder.put(a__py=PIPELINE, b__py=EAGER)
    assert folder.lint("--unsafe-fixes") == 0
    assert folder.text("b.py") == EAGER.replace(", run_eagerly=True", "")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_everything_else_stays_byte_for_byte(folder: Folder, encoding: str, newline: str) -> None:
    head = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    odd = 's = "é\\d"; t = 1   \n\x0c\nif 1 :\n\tpass # ½\n'
    before = (head + odd + PIPELINE + "#end").replace("\n", newline).encode(encoding)
    file = folder.put_bytes("a.py", before)
    assert folder.lint("--fix") == 0
    assert file.read_bytes() == (head + odd + CURED + "#end").replace("\n", newline).encode(encoding)


def test_diff_changes_nothing_and_can_be_applied(folder: Folder) -> None:
    folder.put(a__py=PIPELINE)
    assert folder.lint("--diff") == 1
    assert folder.text("a.py") == PIPELINE
    subprocess.run(["patch", "-p1", "--quiet"], input=folder.out.encode(), check=True)
    assert folder.text("a.py") == CURED
    assert folder.lint("--diff") == 0
    assert folder.out == ""


def test_a_link_stays_a_link_and_keeps_its_mode(folder: Folder) -> None:
    real = folder.put_bytes("elsewhere/real.py", PIPELINE.encode())
    real.chmod(0o751)
    (folder.path / "a.py").symlink_to(real)
    assert folder.lint("--fix", "a.py") == 0
    assert (folder.path / "a.py").is_symlink()
    assert real.read_bytes().decode() == CURED
    assert stat.S_IMODE(real.stat().st_mode) == 0o751


def test_a_file_that_changes_meanwhile_is_left_alone(folder: Folder) -> None:
    file = folder.put_bytes("a.py", PIPELINE.encode())
    _, rewritten = file_fixes.fix_file(str(file), lint_settings.load_settings([str(file)]), SAFE_EFFECTS)
    assert rewritten is not None
    file.write_bytes(b"another\n")
    (error,) = file_fixes.write_fixes([rewritten])
    assert "it was changed in the meantime" in error.says
    assert file.read_bytes() == b"another\n"
    assert [f.name for f in folder.path.iterdir()] == ["a.py"]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_told(folder: Folder) -> None:
    file = folder.put_bytes("a.py", PIPELINE.encode())
    file.chmod(0o444)
    assert folder.lint("--fix") == 2
    assert "a.py: cannot be written" in folder.err
    assert folder.text("a.py") == PIPELINE


def _replaced(monkeypatch: pytest.MonkeyPatch, text: str, effect: Effect = Effect.EXACT) -> None:
    """The cause eager-step finds ``run_eagerly`` and puts ``text`` in its place."""
    (cause,) = [c for c in all_causes() if c.id == "host/eager-step"]

    def spot(source: Source) -> Iterable[Spot]:
        for number, row in enumerate(source.text.split("\n"), 1):
            at = row.find("run_eagerly")
            if at >= 0:
                edit = Edit(source.file, (number, at), (number, at + len("run_eagerly")), text)
                cure = Prescription("edit", effect, "change it", edits=(edit,))
                yield Spot((number, at), (number, at + 3), "found", cure)

    monkeypatch.setattr(cause, "spot", spot)


def test_edits_that_leave_no_python_are_not_offered(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    _replaced(monkeypatch, "if (")
    folder.put(a__py=EAGER)
    assert folder.lint("--fix") == 1
    assert folder.text("a.py") == EAGER
    assert "--fix" not in folder.out


@pytest.mark.parametrize("text", ["run_eagerly=0, run_eagerly_", "run_eagerly"], ids=["grows", "the same"])
def test_edits_without_an_end_change_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    _replaced(monkeypatch, text)
    folder.put(a__py="import keras\nrun_eagerly = 1\n" if "=" not in text else "import keras\nx = f(run_eagerly=1)\n")
    before = folder.text("a.py")
    folder.lint("--fix")
    assert folder.text("a.py") == before


def test_overlapping_edits_are_made_one_after_the_other(folder: Folder) -> None:
    # Both want to import TensorFlow at the same place.
    text = PIPELINE.replace("import tensorflow as tf\n", "from tensorflow import data, image, io\n").replace("tf.", "")
    folder.put(a__py=text)
    assert folder.lint("--fix") == 0
    new = folder.text("a.py")
    assert new.count("import tensorflow as tf") <= 1
    assert "num_parallel_calls" in new
    assert "prefetch" in new


def test_many_files_on_several_processes_give_the_same(folder: Folder) -> None:
    for number in range(80):
        folder.put_bytes(f"{number % 7}/m{number}.py", (PIPELINE if number % 3 else EAGER).encode())
    several, one = folder.document("--processes", "2"), folder.document("--processes", "1")
    assert several == one
    assert several["files"] == 80
    assert folder.lint("--fix", "--processes", "2") == 1
    assert Path("1/m1.py").read_text() == CURED
