"""What tells a process that was stopped from one whose recorder's thread came late."""

from __future__ import annotations

import sys

import pytest

from slowtrain.capture.core import process_stops
from slowtrain.capture.core.process_stops import StopDetector

SECOND = 1_000_000_000
ASKED_S = 0.05


def _wait(
    monkeypatch: pytest.MonkeyPatch, took_s: float, worked_s: float, turns: int, told: StopDetector | None = None
) -> object:
    """A wait of 50 ms that took so long, in which the process used so much, and the thread gave up so often."""
    told = told or StopDetector()
    after = (int(took_s * SECOND), int(worked_s * SECOND), turns if turns < 0 else turns + 7)
    readings = iter([(0, 0, min(turns, 0) or 7), after])
    monkeypatch.setattr(process_stops, "_read_clocks", lambda: next(readings))
    told.waits()
    return told.stop_during_wait(ASKED_S)


def test_nothing_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _wait(monkeypatch, 3.0, 0.01, 3) == (int(ASKED_S * SECOND), 3 * SECOND)


@pytest.mark.parametrize(
    ("took_s", "worked_s", "turns"),
    [
        pytest.param(0.06, 0.0, 1, id="on time"),
        pytest.param(0.4, 0.0, 1, id="late by little, as on a crowded machine"),
        pytest.param(3.0, 0.0, 590, id="behind C code that keeps the lock and sleeps"),
        pytest.param(3.0, 2.9, 3, id="behind others that take all processors"),
        pytest.param(3.0, 0.0, -1, id="where the system does not tell"),
    ],
)
def test_something_ran(monkeypatch: pytest.MonkeyPatch, took_s: float, worked_s: float, turns: int) -> None:
    assert _wait(monkeypatch, took_s, worked_s, turns) is None


def test_a_thread_that_asks_for_the_lock_seldom_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1.0)
        assert _wait(monkeypatch, 3.0, 0.0, 3) is None
    finally:
        sys.setswitchinterval(usual)


def test_only_some_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    told = StopDetector()
    found = [_wait(monkeypatch, 3.0, 0.0, 3, told) for _ in range(process_stops.MAX_STOPS + 5)]
    assert [one is not None for one in found] == [True] * process_stops.MAX_STOPS + [False] * 5
