"""A process that was stopped: no step is as long as that, and no stall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slowtrain.capture.core.recorder import Recorder
from slowtrain.columns.spans import Event
from slowtrain.recording.store import STOPPED_EVENT, SUSPEND_LANE
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division import step_disturbances
from slowtrain.trace.signals.host import stalls

MS, STEPS, EACH, LONG = 1_000_000, 300, 10, 2_000


def _recorded(folder: Path, inside: bool, noted: bool) -> Trace:
    """Steps of 10 ms, four of them, or the pauses behind them, two seconds longer: stopped, where that was noted."""
    recorder = Recorder(folder)
    recorder.open()
    step = recorder.name("function", "train_step", training=True, file="train.py", line=3, site=("train.py", 9))
    at = recorder._begun_ns
    for i in range(STEPS):
        long = i % 60 == 50
        start, at = at, at + (EACH - 2) * MS
        since = at
        at += LONG * MS if long and inside else 0
        recorder.span(step, start, at)
        at += (LONG + 2) * MS if long and not inside else 2 * MS
        if long and noted:
            recorder.event(SUSPEND_LANE, STOPPED_EVENT, since + 50 * MS, since + LONG * MS)
    recorder.close()
    return recording_trace.load_recording(folder)


@pytest.mark.parametrize("inside", [True, False])
def test_steps_and_pauses_in_which_the_process_was_stopped_are_no_stalls(tmp_path: Path, inside: bool) -> None:
    trace = _recorded(tmp_path, inside, noted=True)
    assert stalls.find_stalls(trace) == []
    assert trace.step_ms == pytest.approx(EACH, rel=0.05)
    assert trace.run.ms("stopped") == pytest.approx(5 * (LONG - 50))
    assert trace.run.total_ms == pytest.approx(sum(p.ms for p in trace.run.parts))
    assert [n for n in trace.facts["notes"] if "the process was stopped 5 times, for 9.75 s" in n]


@pytest.mark.parametrize("inside", [True, False])
def test_the_same_without_a_stop_are_stalls(tmp_path: Path, inside: bool) -> None:
    trace = _recorded(tmp_path, inside, noted=False)
    assert [len(one.each) for one in stalls.find_stalls(trace)] == [5]
    assert trace.run.ms("stopped") == 0
    assert "notes" not in trace.facts


def test_a_machine_that_slept_lost_no_time_here() -> None:
    slept = Event("suspend", "machine asleep", 500.0, 500.0, {"slept_s": 3600.0})
    assert np.size(step_disturbances.stopped_times([slept])[0]) == 0
    assert list(step_disturbances.stop_notes([slept])) == [
        "the machine slept for 3,600 s, which no time in this report includes: its clock stood still"
    ]
    assert list(step_disturbances.stop_notes([])) == []
