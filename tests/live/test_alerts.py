"""When an alert arises, what it says, and when none does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from slowtrain.model import Diagnosis, Evidence, Saving
from slowtrain.shared.live_frame import Alert
from slowtrain.watch import alert_rules, run_watch
from slowtrain.watch.run_watch import Watch

from .making import MS, Making


def looks(folder: Path, times: int = alert_rules.CONFIRMING_LOOKS) -> tuple[Alert, ...]:
    looking = Watch(folder, examine=False)
    found: tuple[Alert, ...] = ()
    for _ in range(times):
        found = looking.look().alerts
    return found


def only(found: tuple[Alert, ...], name: str) -> Alert:
    return next(a for a in found if a.id == name)


def test_nothing_is_wrong(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 400.0)
    made.until_now(20.0, waits_ms=2.0)
    made.sampled(1e9 + np.random.default_rng(0).normal(0, 1e6, 700))
    assert looks(made.folder) == ()


def test_a_stall_says_where_the_script_is(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 100.0)
    made.takes(5000)
    made.seen_at(made.at_ns + 40_000 * MS)
    found = only(looks(made.folder, 1), "stall")
    assert found.urgent
    assert found.numbers["quiet_ms"] >= 48_500  # and as much more as it took to get here
    assert "/home/me/train.py:31, in read" in found.says
    made.until_now()
    assert looks(made.folder, 1) == ()


def test_a_stall_of_a_process_that_is_stopped_says_so(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        made = Making(tmp_path / "run", 100.0)
        made.write(facts={"child": {"pid": other.pid, "begun_ns": made.start_ns}})
        made.takes(5000)
        assert "stopped" not in only(looks(made.folder, 1), "stall").says
        other.send_signal(signal.SIGSTOP)
        for _ in range(100):
            if psutil.Process(other.pid).status() == psutil.STATUS_STOPPED:
                break
            time.sleep(0.02)
        says = only(looks(made.folder, 1), "stall").says
        other.send_signal(signal.SIGCONT)
        other.communicate(b"\n")
    assert f"; its process is stopped (Ctrl-Z, SIGSTOP): `kill -CONT {other.pid}` resumes it" in says


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_steps_of_minutes_are_no_stall(steps: int, tmp_path: Path) -> None:
    """Half of one is over, the first ones included, of which nobody knows yet how long they are."""
    made = Making(tmp_path / "run", 600.0 * (steps + 0.5))
    made.takes(steps, 600_000.0, piece=1)
    assert looks(made.folder, 1) == ()


def test_pauses_that_the_run_always_had_are_no_stall(tmp_path: Path) -> None:
    """A validation of half a minute after each epoch."""
    made = Making(tmp_path / "run", 100.0)
    made.takes(2000)
    made.rest(30)
    made.takes(3000)
    made.rest(30)  # 19 s of it are over
    assert looks(made.folder) == ()


def test_steps_that_became_slower(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 300.0)
    made.takes(10_000, 20.0)
    made.until_now(30.0)
    found = only(looks(made.folder), "slower-steps")
    assert found.numbers["ratio"] == pytest.approx(1.5, rel=0.02)
    assert looks(made.folder, 1) == ()  # one look may be wrong


def test_noise_is_no_slowing(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 300.0)
    random = np.random.default_rng(1)
    while made.at_ns < time.perf_counter_ns() - 500 * MS:
        made.takes(20, float(random.lognormal(3.0, 0.5)))
    assert [a.id for a in looks(made.folder)] == []


def test_a_loss_that_is_no_number_is_told_at_once_and_stays(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    at = made.at_ns - 10_000 * MS
    made.write(events=[(at, at, "nonfinite", "loss", {"step": 1200, "value": "nan"})])
    found = only(looks(made.folder, 1), "nonfinite-loss")
    assert found.urgent
    assert "loss is nan, seen at step 1,200" in found.says
    assert found.at_ms == pytest.approx((at - made.start_ns) / MS, abs=1)


def test_a_metric_that_is_no_number_is_no_loss(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    at = made.at_ns - 10_000 * MS
    made.write(events=[(at, at, "nonfinite", "psnr", {"step": 1200, "value": "inf"})])
    assert looks(made.folder, 1) == ()


@pytest.mark.parametrize(
    ("grows", "alarms"),
    [
        (lambda i: 1e9 + 4e6 * i, True),
        (lambda i: 1e9 + 2.8e9 * (1 - np.exp(-i / 100)), False),  # a cache that fills
        (lambda i: 1e9 + 3e5 * i, False),  # a leak, but the run ends long before: a cause says so
        (lambda i: 1e9 + 2e8 * (i % 100 > 50), False),
    ],
)
def test_memory_that_will_be_full(grows: Callable[[int], float], alarms: bool, tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 500.0, epochs=1000)
    made.until_now()
    made.sampled([grows(i) for i in range(900)])
    found = [a for a in looks(made.folder) if a.id == "memory-full"]
    assert bool(found) is alarms
    if alarms:
        assert found[0].numbers["growth_bytes_per_minute"] == pytest.approx(4e6 * 120, rel=0.02)
        assert found[0].numbers["full_in_ms"] == pytest.approx(8e9 / 8e6 * 1e3, rel=0.02)


def test_memory_that_is_full(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    made.sampled([15.8e9] * 10)
    assert only(looks(made.folder, 2), "memory-full").urgent


def test_input_bound(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 60.0)
    made.until_now(20.0, waits_ms=10.0)
    found = only(looks(made.folder), "input-bound")
    assert found.numbers["input_ms"] == pytest.approx(10, rel=0.05)


def test_the_recording_ended_before_the_run(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    (made.folder / "ended.txt").write_text("database or disk is full")
    assert "database or disk is full" in only(looks(made.folder, 1), "recording-ended").says


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    made.write(facts={"child": {"pid": 2**22 + 1, "begun_ns": made.start_ns}})
    assert only(looks(made.folder, 2), "process-lost").urgent


def test_an_alert_is_over_when_it_stays_away_and_keeps_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Making(tmp_path / "run", 100.0)
    made.takes(5000)
    looking = Watch(made.folder, examine=False)
    first = only(looking.look().alerts, "stall")
    assert only(looking.look().alerts, "stall").at_ms == first.at_ms
    made.until_now()
    assert only(looking.look().alerts, "stall").over_ms is None  # it may come back at once
    monkeypatch.setattr(alert_rules, "ALERT_HOLD_MS", 0.0)
    over = only(looking.look().alerts, "stall")
    assert over.over_ms is not None


def test_what_a_cause_says_takes_the_place_of_the_cheap_sign(tmp_path: Path) -> None:
    made = Making(tmp_path / "run", 300.0)
    made.takes(10_000, 20.0)
    made.until_now(30.0)
    looking = Watch(made.folder)
    assert looking.examining is not None
    looking.examining._due_s = float("inf")
    found = [looking.look().alerts for _ in range(alert_rules.CONFIRMING_LOOKS)][-1]
    assert [a.id for a in found] == ["slower-steps"]
    growing = Diagnosis(
        "drift/growing-step", "Steps grow", Evidence("by 1 % a minute"), Saving("step", 3.0, 2.0, 1.2, 1.8), 0.3
    )
    mapped = Diagnosis("input/sequential-map", "A map", Evidence(""), Saving("step", 4.0, 2.0, 1.5, 2.5), 0.5)
    looking.examining.report = run_watch.diagnosis_report([growing, mapped], 1000.0)
    frame = looking.look()
    assert [a.id for a in frame.alerts] == ["drift/growing-step"]
    assert [f.cause for f in frame.found] == ["input/sequential-map"]
    looking.close()


def test_the_recording_is_examined_by_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_watch, "FIRST_DIAGNOSIS_S", 0.0)
    made = Making(tmp_path / "run", 30.0)
    made.until_now()
    looking = Watch(made.folder)
    try:
        until = time.monotonic() + 60
        while looking.look().examined_ms is None and time.monotonic() < until:
            time.sleep(0.1)
        assert looking.examining is not None
        assert looking.examining.failed == 0
        assert looking.look().examined_ms is not None
        assert list(made.folder.glob("report.html")) == []  # it only reads
    finally:
        looking.close()
