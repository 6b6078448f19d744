"""The recorder's thread gets its turns beside loops that keep the interpreter's lock from others."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slowtrain.capture.core import switch_interval
from slowtrain.capture.core.switch_interval import SHORT_INTERVAL_S, SHORT_INTERVAL_WAITS, SwitchInterval
from slowtrain.recording import reader

from . import running

WAIT_S, LOOP_S = 0.02, 2.0


@pytest.fixture
def stop() -> _thread.LockType:
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


class Clock:
    """The machine's clock and the process's own, of which the next wait seems to take a second more."""

    def __init__(self, true: Callable[[], int]) -> None:
        self._true, self._calls, self.late_ns = true, 0, 0

    def __call__(self) -> int:
        self._calls += 1
        late_ns = 0
        if self._calls % 2 == 0:  # the end of a wait
            late_ns, self.late_ns = self.late_ns, 0
        return self._true() + late_ns


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    machine, process = Clock(time.perf_counter_ns), Clock(time.process_time_ns)
    monkeypatch.setattr(time, "perf_counter_ns", machine)
    monkeypatch.setattr(time, "process_time_ns", process)

    def once(worked_ns: int = 10**9) -> None:
        machine.late_ns, process.late_ns = 10**9, worked_ns

    return once


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs the tests may have threads of its own."""
    monkeypatch.setattr(switch_interval, "MAX_PYTHON_THREADS", len(sys._current_frames()) + 1)


@pytest.fixture(autouse=True)
def as_before() -> object:
    usual = sys.getswitchinterval()
    yield usual
    sys.setswitchinterval(usual)


def turned(
    stop: _thread.LockType,
    late: Callable[..., None] | None,
    then: Callable[[SwitchInterval], object],
    *,
    trains: bool = True,
) -> None:
    """Calls ``then`` in a thread that takes turns, after it came late, while the main thread is in Python, too."""
    taken, done = SwitchInterval(stop), threading.Event()

    def run() -> None:
        if late is not None:
            late()
        assert not taken.wait(0.001, trains=trains)
        then(taken)
        done.set()

    _thread.start_new_thread(run, ())
    assert done.wait(60)


def test_who_came_late_asks_sooner_and_puts_the_interval_back(
    stop: _thread.LockType, late: Callable[..., None], as_before: float
) -> None:
    seen: list[float] = []

    def then(taken: SwitchInterval) -> None:
        for _ in range(SHORT_INTERVAL_WAITS):
            taken.wait(0.0001, trains=True)
            seen.append(sys.getswitchinterval())
        taken.wait(0.0001, trains=True)
        seen.append(sys.getswitchinterval())

    turned(stop, late, then)
    assert seen[:-1] == [pytest.approx(SHORT_INTERVAL_S)] * SHORT_INTERVAL_WAITS
    assert seen[-1] == as_before


def test_who_came_late_while_the_process_did_nothing_changes_nothing(
    stop: _thread.LockType, late: Callable[..., None], as_before: float
) -> None:
    """It was stopped, or other processes had the cores."""
    seen: list[float] = []

    def then(taken: SwitchInterval) -> None:
        taken.wait(0.0001, trains=True)
        seen.append(sys.getswitchinterval())

    turned(stop, lambda: late(worked_ns=0), then)
    assert seen == [as_before]


def test_who_comes_in_time_changes_nothing(stop: _thread.LockType, as_before: float) -> None:
    seen: list[float] = []
    turned(stop, None, lambda _: seen.append(sys.getswitchinterval()))
    assert seen == [as_before]


def test_until_training_begins_it_asks_at_once(stop: _thread.LockType) -> None:
    seen: list[float] = []
    turned(stop, None, lambda _: seen.append(sys.getswitchinterval()), trains=False)
    assert seen == [pytest.approx(SHORT_INTERVAL_S)]


def test_the_end_puts_the_interval_back(stop: _thread.LockType, late: Callable[..., None], as_before: float) -> None:
    def then(taken: SwitchInterval) -> None:
        taken.wait(0.0001, trains=True)
        taken.end()

    turned(stop, late, then)
    assert sys.getswitchinterval() == as_before


def test_an_interval_that_the_script_sets_meanwhile_is_the_scripts(
    stop: _thread.LockType, late: Callable[..., None]
) -> None:
    def then(taken: SwitchInterval) -> None:
        taken.wait(0.0001, trains=True)
        sys.setswitchinterval(0.02)
        taken.end()

    turned(stop, late, then)
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_beside_other_threads_of_the_script_nothing_is_changed(
    stop: _thread.LockType, late: Callable[..., None], as_before: float
) -> None:
    ends, seen = threading.Event(), list[float]()
    other = threading.Thread(target=ends.wait)
    other.start()
    try:
        turned(stop, None, lambda _: seen.append(sys.getswitchinterval()), trains=False)
    finally:
        ends.set()
        other.join()
    assert seen == [as_before]


def test_a_forked_child_has_the_interval_that_the_script_had(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(
        "import os, sys, time\n"
        "given_up = time.monotonic() + 60\n"
        "while sys.getswitchinterval() == 0.005 and time.monotonic() < given_up:\n"
        "    time.sleep(0.01)\n"
        "print('script', sys.getswitchinterval(), flush=True)\n"
        "if not os.fork():\n"
        "    print('child', sys.getswitchinterval(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    done = running.recorded(tmp_path / "recording", script)
    told = dict(line.split() for line in done.out.splitlines())
    assert float(told["script"]) == pytest.approx(SHORT_INTERVAL_S), "nothing trains, and no other thread runs Python"
    assert float(told["child"]) == pytest.approx(0.005)
    assert reader.read_recording(tmp_path / "recording").facts["own_ms"] > 0


@pytest.mark.bench
@pytest.mark.parametrize("small_calls", [300, 1000])
def test_a_loop_that_lets_go_more_often_than_the_interval_does_not_keep_it_out(
    stop: _thread.LockType, small_calls: int
) -> None:
    """Small NumPy calls hold the lock, and a larger one every millisecond or two lets go of it for an instant."""
    came: list[float] = []
    runs = threading.Event()

    def run() -> None:
        taken = SwitchInterval(stop)
        runs.set()
        while not taken.wait(WAIT_S, trains=False):
            came.append(time.perf_counter())
        taken.end()
        came.append(-1.0)

    small, larger = np.ones((3, 3), np.float32), np.ones(784, np.float32)
    _thread.start_new_thread(run, ())
    assert runs.wait(60)
    time.sleep(2 * WAIT_S)
    end = time.perf_counter() + LOOP_S
    while time.perf_counter() < end:
        for _ in range(small_calls):
            np.sum(small * small)
        np.copyto(larger, larger + 1)
    stop.release()
    while came[-1:] != [-1.0]:
        time.sleep(0.01)
    assert len(came) >= 0.5 * LOOP_S / WAIT_S
