"""What ``fix`` and ``verify`` say while they measure."""

from __future__ import annotations

import sys
import time

import pytest

from slowtrain.cli._proving import Progress


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)

    def probe(self, said: Progress, message: str, seconds: int) -> None:
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
    said = Progress(100.0)
    clock.probe(said, "diagnosing", 25)
    clock.probe(said, "one pair", 3)
    assert capsys.readouterr().err.splitlines() == [
        "slowtrain: diagnosing (at most 1:40 left)",
        "slowtrain: diagnosing; a process runs for 10 s (at most 1:30 left)",
        "slowtrain: diagnosing; a process runs for 20 s (at most 1:20 left)",
        "slowtrain: one pair (at most 1:15 left)",
    ]


def test_where_it_is_piped_there_is_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch, terminal=False)
    said = Progress(300.0)
    for number in range(26):
        clock.probe(said, f"pair {number}", 5)
    assert capsys.readouterr().err.splitlines() == [
        "slowtrain: pair 12; a process runs for 0 s (at most 4:00 left)",
        "slowtrain: pair 24; a process runs for 0 s (at most 3:00 left)",
    ]
