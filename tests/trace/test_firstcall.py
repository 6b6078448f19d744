"""A run that was killed while its training function was compiled: that time is the compilation's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.recording.reader import Recording
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division import attribution, recording_steps, step_disturbances
from slowtrain.trace.signals.host import start_parts

RECORDED = Path(__file__).parents[3] / "shared/traces/tf-h200"
on_gpu = pytest.mark.skipif(not RECORDED.exists(), reason="../shared/traces/tf-h200 is absent")
CALL = {"leaf_file": "/tmp/site/tensorflow/python/eager/execute.py"}
OTHER = {"leaf_file": "/home/me/train.py"}
END_MS = 5000.0


def spans(*rows: tuple[float, float, int]) -> Spans:
    start, end, name = (np.array([row[i] for row in rows]) for i in range(3))
    none = np.zeros(len(rows), dtype=np.int64)
    return Spans(start.astype(float), end.astype(float), name.astype(np.int64), none + 1, none)


def killed(leaf: int = 2, called: int = 1, ended: bool = False, returned: bool = False) -> Recording:
    """Traced from 100 to 1000 ms, then nothing but samples of the main thread until the end."""
    names = (Name("trace", "other"), Name("trace", "function"), Name("stack", "f", CALL), Name("stack", "f", OTHER))
    lanes = {"trace": spans((100, 1000, called)), "stack": spans(*((at, at, leaf) for at in range(1050, 5000, 50)))}
    if returned:
        lanes["step"] = spans((50, 1500, 0))
    facts = {"end_ns": 5_000_000_000} if ended else {}
    events = (Event("loop", "fit", 90.0, END_MS, {"jit_compile": True}),)
    return Recording(Path("x"), names, lanes, 1, events, facts, end_ms=END_MS)


def test_from_the_trace_to_the_end() -> None:
    assert step_disturbances.unfinished_interval_ms(killed()) == (1000.0, END_MS)
    found = attribution.run_phases(killed(), recording_steps.find_steps(killed()))
    assert found.ms("compile") == 4900.0
    assert found.ms("epoch") == 10.0


@pytest.mark.parametrize(
    "raw",
    [
        killed(leaf=3),  # the script's own lines were at work
        killed(called=0),  # no function was called that was traced
        killed(ended=True),  # the script ended by itself
        killed(returned=True),  # the first step was done
    ],
)
def test_other_ends_are_none(raw: Recording) -> None:
    assert step_disturbances.unfinished_interval_ms(raw) is None
    assert attribution.run_phases(raw, recording_steps.find_steps(raw)).ms("compile") <= 900.0


@on_gpu
def test_a_real_run_that_was_killed_in_its_first_compilation() -> None:
    trace = recording_trace.load_recording(RECORDED / "s003_startup")
    assert trace.run.ms("compile") == pytest.approx(60_800, rel=0.01)
    assert trace.run.ms("epoch") < 500
    parts = {part.key: part.ms for part in start_parts.parts_of_start(trace)}
    assert parts["compiling"] == pytest.approx(41_200, rel=0.02)
    assert parts["tracing"] == pytest.approx(19_600, rel=0.02)
    assert "XLA, autotuning" in start_parts.start_sentence(trace)
