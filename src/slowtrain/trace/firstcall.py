"""The first call of a traced function that never returned: the run was killed while it was compiled and started."""

from __future__ import annotations

import numpy as np

from slowtrain.trace import Spans, intervals
from slowtrain.trace.recording import Recording

EXECUTE = ("tensorflow/python/eager/execute.py",)  # the file in which Python waits for a function's call
MOSTLY = 0.5  # of the samples of the main thread: the rest are of threads that were asked at another moment
CALLS = ("step", "function", "on_batch", "gradient")  # lanes whose spans are written when a call returns


def unfinished(recording: Recording) -> intervals.Intervals:
    """The time of that call after its function was traced, as a set of intervals; empty where none was cut off."""
    found = interval_ms(recording)
    return intervals.union(np.array(found[:1]), np.array(found[1:])) if found else intervals.EMPTY


def interval_ms(recording: Recording) -> tuple[float, float] | None:
    """From the end of the last trace to the end of the run, where the main thread waited for that call only."""
    traces = recording.lanes.get("trace")
    if recording.facts.get("end_ns") or traces is None:
        return None
    named = np.array([name.text for name in recording.names])
    called = traces.where((traces.thread == recording.main) & (named[traces.name] == "function"))
    if not len(called):
        return None
    begun = float(called.end_ms.max())
    returned = any(len(s) and float(s.end_ms.max()) > begun for lane in CALLS if (s := recording.lanes.get(lane)))
    if returned or not _waits_for_a_call(recording, begun):
        return None
    return begun, recording.end_ms


def _waits_for_a_call(recording: Recording, begun_ms: float) -> bool:
    """Whether most samples of the main thread since then lie in TensorFlow's call of a function."""
    samples = recording.lanes.get("stack", Spans()).between(begun_ms, recording.end_ms)
    if not len(samples):
        return False
    leaves = (str(recording.names[int(n)].detail.get("leaf_file")) for n in samples.name)
    return sum(leaf.replace("\\", "/").endswith(EXECUTE) for leaf in leaves) > MOSTLY * len(samples)
