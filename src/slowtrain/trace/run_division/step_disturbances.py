"""What interrupts a recording's steps: stops of the process, compilations by XLA, a call that never returned.

Steps do not get longer by a stop of the process, or when the machine sleeps.

XLA compiles a known function again for another batch size, and TensorFlow records no trace. An epoch's last batch is
smaller if the batch size does not divide the data. A function compiled by XLA has fixed shapes, so that this step waits
for a second compilation, which takes about as long as the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints, median_value
from slowtrain.columns.input_pipeline import UNKNOWN_CARDINALITY
from slowtrain.columns.intervals import Intervals
from slowtrain.columns.spans import Event, Spans, times_of
from slowtrain.columns.steps import Steps
from slowtrain.number_text import format_number
from slowtrain.recording.reader import Recording
from slowtrain.recording.store import STOPPED_EVENT, SUSPEND_LANE
from slowtrain.trace import Trace

EXECUTE_FILES = ("tensorflow/python/eager/execute.py",)  # the file in which Python waits for a function's call
MIN_WAITING_SHARE = 0.5  # of the main thread's samples; the others were taken at another moment
CALL_LANES = ("step", "function", "on_batch", "gradient")  # lanes whose spans are recorded when a call returns
KERAS_BATCH_SIZE = 32  # samples; the default of fit for arrays
# Compilation time relative to the median step. The shortest on a GPU took 925 ms, 550 times the step of 1.7 ms. If a
# step takes a twentieth of a compilation, the compilation does not change the mean much.
MIN_COMPILATION_RATIO = 20.0
MIN_COMPILATION_MS = 100.0  # XLA took 173 ms for a step of one matrix product on two CPU cores, and more for all others


def stopped_times(events: Iterable[Event]) -> Intervals:
    """Return when the process was stopped, as far as the recorder noted it."""
    return times_of(e for e in events if e.lane == SUSPEND_LANE and e.name == STOPPED_EVENT)


def stop_notes(events: Iterable[Event]) -> Iterator[str]:
    """Yield what a reader of the report should know about stops."""
    events = list(events)
    start, end = stopped_times(events)
    if len(start):
        often, seconds = "once" if len(start) == 1 else f"{len(start)} times", float((end - start).sum()) / 1e3
        yield (
            f"the process was stopped {often}, for {format_number(seconds)} s (Ctrl-Z, SIGSTOP, a debugger, a "
            "frozen container or machine): the steps during a stop do not count"
        )
    slept = sum(
        float(e.data.get("slept_s") or 0.0) for e in events if e.lane == SUSPEND_LANE and e.name != STOPPED_EVENT
    )
    if slept > 0:
        yield (
            f"the machine slept for {format_number(slept)} s, which no time in this report includes: its clock "
            "stood still"
        )


def find_recompilations(
    recorded: Recording | Trace, start_ms: Floats, end_ms: Floats, size: Ints, block: Ints
) -> Bools:
    """Return in which steps XLA compiled, after the first one.

    ``size``: samples of each step, 0 if unknown. ``block``: the number of its epoch.
    """
    found = np.zeros(len(start_ms), dtype=bool)
    if len(start_ms) < 3:
        return found
    ms = end_ms - start_ms
    long = ms >= max(MIN_COMPILATION_RATIO * float(median_value(ms)), MIN_COMPILATION_MS)
    long[0] = False  # the first compilation
    if not long.any():
        return found
    long &= _in_xla_function(recorded, start_ms)
    for at in np.flatnonzero(long):
        found[at] = _is_first_of_size(size, int(at)) or _is_only_long_epoch_end(
            recorded.events, start_ms, block, long, int(at)
        )
    return found


def recompilation_times(recorded: Recording | Trace, steps: Steps) -> intervals.Intervals:
    """Return the time of these compilations: what each such step took beyond the median step."""
    found = find_recompilations(recorded, steps.start_ms, steps.end_ms, steps.size, steps.block)
    if not found.any():
        return intervals.EMPTY
    usual = float(median_value(steps.ms))
    return intervals.union(steps.start_ms[found], steps.end_ms[found] - usual)


def uneven_batches(events: Iterable[Event]) -> Iterator[Mapping[str, Any]]:
    """Yield pipeline stages that make batches, and whose last batch may be smaller."""
    for nodes in _pipeline_nodes(events):
        yield from (node for node in nodes if node.get("batch_size") and _stage_leaves_rest(node, nodes))


def _pipeline_nodes(events: Iterable[Event]) -> Iterator[Sequence[Mapping[str, Any]]]:
    for event in events:
        if event.lane == "pipeline":
            yield event.data.get("nodes") or ()


def _in_xla_function(recorded: Recording | Trace, start_ms: Floats) -> Bools:
    """Return which steps belong to a function that XLA compiles."""
    found = np.zeros(len(start_ms), dtype=bool)
    for event in _fit_calls(recorded.events):
        if event.data.get("jit_compile") is True:
            found |= (start_ms >= event.start_ms) & (start_ms <= event.end_ms)
    lanes = ("trace", "compile") if "on_batch" in recorded.lanes else ("trace",)
    compiled = [e.start_ms for e in recorded.events if e.lane in lanes and e.data.get("jit_compile") is True]
    return found | (start_ms >= min(compiled)) if compiled else found


def _fit_calls(events: Iterable[Event]) -> list[Event]:
    return [e for e in events if e.lane == "loop" and e.name == "fit" and not e.data.get("nested")]


def _is_first_of_size(size: Ints, at: int) -> bool:
    """Return whether no earlier step has that many samples."""
    return bool(size[at] > 0 and (size[:at] != size[at]).all() and (size[:at] > 0).any())


def _is_only_long_epoch_end(events: Sequence[Event], start_ms: Floats, block: Ints, long: Bools, at: int) -> bool:
    """Return whether the step ends an epoch of ``fit`` with a possible remainder.

    It must be the only long epoch end of its model.
    """
    fits = _fit_calls(events)
    fit = next((e for e in fits if e.start_ms <= start_ms[at] <= e.end_ms), None)
    if fit is None or not _may_have_rest(events, fit):
        return False
    ends = long & np.append(np.diff(block) != 0, True)
    same_model = np.zeros(len(start_ms), dtype=bool)
    for event in fits:
        if event.data.get("model") == fit.data.get("model"):
            same_model |= (start_ms >= event.start_ms) & (start_ms <= event.end_ms)
    return bool(ends[at]) and int((ends & same_model).sum()) == 1


def _may_have_rest(events: Sequence[Event], fit: Event) -> bool:
    """Return whether the data may not be a multiple of the batch size; False only if it certainly is."""
    shape = (fit.data.get("data") or {}).get("shape")
    if shape and shape[0] and not fit.data.get("validation_split"):
        return bool(int(shape[0]) % int(fit.data.get("batch_size") or KERAS_BATCH_SIZE))
    known = any(node.get("batch_size") for nodes in _pipeline_nodes(events) for node in nodes)
    return not known or any(True for _ in uneven_batches(events))


def _stage_leaves_rest(node: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a stage may make a smaller last batch: its size is open, and the data is no multiple of it."""
    shapes = [element.get("shape") for element in node.get("element") or ()]
    if shapes and all(shape and shape[0] is not None for shape in shapes):
        return False  # drop_remainder=True
    count = next((nodes[i].get("cardinality") for i in node.get("inputs") or () if i < len(nodes)), None)
    if not isinstance(count, int) or count == UNKNOWN_CARDINALITY:
        return True
    return count > 0 and count % int(node["batch_size"]) != 0


def unfinished_call_time(recording: Recording) -> intervals.Intervals:
    """Return the time of that call after its function was traced; empty if no call was cut off."""
    found = unfinished_interval_ms(recording)
    return intervals.single(*found) if found else intervals.EMPTY


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
    samples = recording.lanes.get("stack", Spans()).starting_between(begun_ms, recording.end_ms)
    if not len(samples):
        return False
    leaves = (str(recording.names[int(n)].detail.get("leaf_file")) for n in samples.name)
    return sum(leaf.replace("\\", "/").endswith(EXECUTE_FILES) for leaf in leaves) > MIN_WAITING_SHARE * len(samples)
