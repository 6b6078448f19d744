"""What ``fix`` and ``verify`` say while they measure."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from markupsafe import escape

from slowtrain.cli import _measuring
from slowtrain.cli._measuring import ProofProgress
from slowtrain.model.measurements import ChangedFile, Proof
from slowtrain.script.text import edits

from ..report import checkups  # noqa: TID252  tests are no package


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)

    def probe(self, said: ProofProgress, message: str, seconds: int) -> None:
        """A probe that takes so long, with its ticks."""
        said(message)
        begun = self.now
        for tenth in range(10 * seconds):
            self.now = begun + tenth / 10
            said.tick(tenth / 10)
        self.now = begun + seconds


def test_on_a_terminal_a_long_probe_is_seen_to_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch, terminal=True)
    said = ProofProgress(100.0)
    clock.probe(said, "diagnosing", 25)
    clock.probe(said, "one pair", 3)
    assert capsys.readouterr().err.splitlines() == [
        "slowtrain: diagnosing (at most 1:40 left)",
        "slowtrain: diagnosing; running for 10 s (at most 1:30 left)",
        "slowtrain: diagnosing; running for 20 s (at most 1:20 left)",
        "slowtrain: one pair (at most 1:15 left)",
    ]


def test_where_it_is_piped_there_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch, terminal=False)
    said = ProofProgress(300.0)
    for number in range(26):
        clock.probe(said, f"pair {number}", 5)
    assert capsys.readouterr().err.splitlines() == [
        "slowtrain: pair 12 (at most 4:00 left)",
        "slowtrain: pair 24 (at most 3:00 left)",
    ]


@pytest.mark.parametrize("repository", [True, False])
@pytest.mark.parametrize("written", [True, False])
def test_the_commands_stand_in_text_json_and_page_and_work_in_any_folder(
    repository: bool, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a & b"
    folder.mkdir()
    if repository:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.chdir(folder)
    before, after = "x = 1\n", "x = 2\n"
    script = folder / "train.py"
    script.write_text(after if written else before)
    name = "a & b/train.py" if repository else "train.py"
    changed = ChangedFile(script, before.encode(), after.encode())
    proof = Proof(("train.py",), (), None, edits.file_diff(name, before, after), (changed,), checkups.input_bound())
    (folder / "runs").mkdir()
    _measuring.print_proof(argparse.Namespace(html=None, json=None), proof, Path("runs"), written=written)
    fix = json.loads((folder / "runs/fix.json").read_text())["fix"]
    shown = "undo" if written else "apply"
    assert re.findall(r"^(?:undo|apply): +(git .*)$", capsys.readouterr().out, re.MULTILINE) == [fix[shown]]
    page = (folder / "runs/fix.html").read_text()
    assert f"<code>{escape(fix['undo'])}</code>" in page
    turns = [("undo", before), ("apply", after)]
    for command, text in turns if written else reversed(turns):
        subprocess.run(shlex.split(fix[command]), cwd="/", check=True)
        assert script.read_text() == text
