"""The start of a run in parts: imports, first operation on a GPU, tracing, compilation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.spans import Event, Spans, times_of
from slowtrain.model import Phase
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    ms_of_samples,
)
from slowtrain.trace.signals.host.retraces import is_xla_compiled

# Functions of tensorflow/python/eager/context.py that find the devices; the first op comes after them.
FINDS_DEVICES = frozenset({"_initialize_physical_devices", "ensure_initialized"})
# Of one op before training. An op without waits takes less than a millisecond; the first one on a GPU took
# 0.9 to 1.3 s in eleven recordings, since it loads CUDA's modules and sets up the context.
MIN_FIRST_OP_MS = 200.0
MIN_TOLD_SHARE = 0.02  # of the start; smaller parts are in the JSON only
PART_KEY = "{}_ms"


class StartPart(Struct, frozen=True):
    """A part of the start: ``key`` names it in JSON, ``start_sentence`` in sentences."""

    key: str
    says: str
    ms: float


def parts_of_start(trace: Trace) -> tuple[StartPart, ...]:
    """Return what the framework did until the first step was done, largest first.

    The script's own preparation is not included.
    """
    return trace.compute_once(_find_parts)


def _find_parts(trace: Trace) -> tuple[StartPart, ...]:
    tracing_ms, compiling_ms = first_calls_ms(trace)
    on_gpu = first_op_on_gpu_ms(trace)
    xla = waits_for_xla(trace)
    what = "the first execution of the traced functions"
    if xla:
        autotuning = ", autotuning" if trace.on_accelerator else ""
        what = f"compilation by XLA{autotuning} and the first execution"
    found = (
        StartPart("launch", "starting Python", trace.run.ms(Phase.LAUNCH)),
        StartPart("imports", "imports", trace.run.ms(Phase.IMPORT)),
        StartPart("first_op_on_gpu", "the first operation on the GPU", on_gpu),
        StartPart("build", "building the model", trace.run.ms(Phase.BUILD)),
        StartPart("tracing", "tracing", tracing_ms),
        StartPart("compiling", what, compiling_ms),
    )
    return tuple(sorted((part for part in found if part.ms > 0), key=lambda part: -part.ms))


def has_begun(trace: Trace) -> bool:
    """Return whether something of the run's work is known: a trace, a call of Keras' loops, or a step."""
    seen = any(trace.events_of("trace")) or any(trace.events_of("loop")) or len(trace.steps) > 0
    return seen or unfinished_call_times(trace) is not None


def start_share(trace: Trace) -> float:
    """Return the total of these parts relative to the run."""
    return min(sum(part.ms for part in parts_of_start(trace)) / trace.run_ms, 1.0) if trace.run_ms else 0.0


def start_sentence(trace: Trace) -> str:
    """Return a sentence about the start's share of the run and its parts; empty if nothing is known."""
    found = parts_of_start(trace)
    if not found:
        return ""
    total_ms = sum(part.ms for part in found)
    each = ", ".join(
        f"{part.says} {format_number(part.ms / 1e3)} s" for part in found if part.ms >= MIN_TOLD_SHARE * total_ms
    )
    return f"start-up is {start_share(trace):.0%} of the run's {format_number(trace.run_ms / 1e3)} s: {each}"


def start_numbers(trace: Trace) -> dict[str, float]:
    """Return the parts for evidence, in ms by name."""
    return {PART_KEY.format(part.key): part.ms for part in parts_of_start(trace)}


def waits_for_xla(trace: Trace) -> bool:
    """Return whether XLA compiled a function at its first call, which may never have returned."""
    events = first_traces(trace)
    if events and unfinished_call_times(trace) is None:
        return any(is_xla_compiled(trace, event) for event in events)
    return any(e.data.get("jit_compile") is True for e in trace.events_of("loop"))


def first_traces(trace: Trace) -> list[Event]:
    """Return calls that traced their function for the first time, up to the first step."""
    ends = float(trace.steps.end_ms[0]) if len(trace.steps) else trace.run_ms
    return [e for e in trace.events_of("trace") if int(e.data.get("nth") or 1) == 1 and e.start_ms <= ends]


def first_calls_ms(trace: Trace) -> tuple[float, float]:
    """Return ms of tracing, and of the rest of these first calls, including a call that the run's end cut off."""
    events = first_traces(trace)
    calls = times_of(events)
    spans = trace.lane("trace")
    spans = spans.where(spans.thread == trace.main)
    begun = unfinished_call_times(trace)
    if begun is not None:
        cut_off = spans.where(spans.end_ms >= begun[0])
        first = float(cut_off.start_ms.min()) if len(cut_off) else begun[0]
        calls = intervals.union(np.append(calls[0], first), np.append(calls[1], begun[1]))
    traced = intervals.intersect(calls, spans.times)
    told_ms = sum(float(e.data.get("trace_ns") or 0) for e in events) / 1e6  # from older recordings without such spans
    tracing = max(intervals.total_length(traced), min(told_ms, intervals.total_length(calls)))
    return tracing, intervals.total_length(calls) - tracing


def unfinished_call_times(trace: Trace) -> tuple[float, float] | None:
    """Return start and end of a first call that never returned; None if there is none."""
    times_ms: Sequence[float] | None = trace.fact("unfinished_call_ms")
    return (float(times_ms[0]), float(times_ms[1])) if times_ms else None


def first_op_on_gpu_ms(trace: Trace) -> float:
    """Return the time of the first op after TensorFlow found a GPU, from samples of the main thread; 0 if unknown."""
    if not trace.on_accelerator:
        return 0.0
    samples = trace.lane("stack")
    begins = min((e.start_ms for e in trace.events_of("trace")), default=trace.run_ms)
    samples = samples.starting_between(0.0, begins)
    names = [trace.names[int(n)] for n in samples.name]
    found = [i for i, name in enumerate(names) if name.text in FINDS_DEVICES]
    return _first_long_op_ms(trace, samples, found[-1] + 1) if found else 0.0


def _first_long_op_ms(trace: Trace, samples: Spans, first: int) -> float:
    """Return the ms of the first long run of samples in one generated op function.

    It must be long enough to set up a context.
    """
    each_ms = ms_of_samples(trace, samples)
    at = first
    while at < len(samples):
        leaf = trace.names[int(samples.name[at])]
        until = at
        while until < len(samples) and trace.names[int(samples.name[until])].text == leaf.text:
            until += 1
        spent = float(each_ms[at:until].sum())
        file = str(leaf.detail.get("leaf_file"))
        if spent >= MIN_FIRST_OP_MS and "/ops/gen_" in file.replace("\\", "/"):
            return spent
        at = until
    return 0.0
