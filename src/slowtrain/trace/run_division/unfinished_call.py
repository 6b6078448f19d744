"""The first call of a traced function that never returned, because the run was killed during compilation."""

from __future__ import annotations

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.spans import Spans
from slowtrain.recording.reader import Recording

EXECUTE_FILES = ("tensorflow/python/eager/execute.py",)  # the file in which Python waits for a function's call
MIN_WAITING_SHARE = 0.5  # of the main thread's samples; the others were taken at another moment
CALL_LANES = ("step", "function", "on_batch", "gradient")  # lanes whose spans are recorded when a call returns


def unfinished_call_time(recording: Recording) -> intervals.Intervals:
    """Return the time of that call after its function was traced; empty if no call was cut off."""
    found = unfinished_interval_ms(recording)
    return intervals.union(np.array(found[:1]), np.array(found[1:])) if found else intervals.EMPTY


def unfinished_interval_ms(recording: Recording) -> tuple[float, float] | None:
    """Return the time from the last trace to the run's end, if the main thread only waited for that call."""
    traces = recording.lanes.get("trace")
    if recording.facts.get("end_ns") or traces is None:
        return None
    named = np.array([name.text for name in recording.names])
    called = traces.where((traces.thread == recording.main) & (named[traces.name] == "function"))
    if not len(called):
        return None
    begun = float(called.end_ms.max())
    returned = any(len(s) and float(s.end_ms.max()) > begun for lane in CALL_LANES if (s := recording.lanes.get(lane)))
    if returned or not _waits_for_call(recording, begun):
        return None
    return begun, recording.end_ms


def _waits_for_call(recording: Recording, begun_ms: float) -> bool:
    """Return whether most samples of the main thread since then are in TensorFlow's call of a function."""
    samples = recording.lanes.get("stack", Spans()).between(begun_ms, recording.end_ms)
    if not len(samples):
        return False
    leaves = (str(recording.names[int(n)].detail.get("leaf_file")) for n in samples.name)
    return sum(leaf.replace("\\", "/").endswith(EXECUTE_FILES) for leaf in leaves) > MIN_WAITING_SHARE * len(samples)
