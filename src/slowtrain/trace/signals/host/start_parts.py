"""The start of a run in parts: imports, first operation on a GPU, tracing, compilation; and which could be avoided."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.spans import Event, Spans, times_of
from slowtrain.model import Phase, Place
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import (
    distinct_places,
    is_in_keras,
    ms_of_samples,
    starts_within,
    training_start_ms,
)
from slowtrain.trace.signals.host.retraces import is_xla_compiled, traces_by_function
from slowtrain.trace.signals.host.source_lines import called_name, loops_around, source_tree

# Functions of tensorflow/python/eager/context.py that find the devices; the first op comes after them.
FINDS_DEVICES = frozenset({"_initialize_physical_devices", "ensure_initialized"})
# Of one op before training. An op without waits takes less than a millisecond; the first one on a GPU took
# 0.9 to 1.3 s in eleven recordings, since it loads CUDA's modules and sets up the context.
MIN_FIRST_OP_MS = 200.0
MIN_TOLD_SHARE = 0.02  # of the start; smaller parts are in the JSON only
PART_KEY = "{}_ms"
MIN_SHAPE_TRACES = 3  # traces of one function before it is called


@dataclass(frozen=True)
class StartPart:
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


class AvoidableKind(Enum):
    """Why a part of the start could have been avoided; each has its own cure."""

    XLA = auto()  # compiled for a short run
    LAST_BATCH = auto()  # compiled again for the smaller last batch
    LAYER = auto()  # unrolled in the graph, a part for each iteration of a loop
    STEPS = auto()  # whole training steps, unrolled
    MODELS = auto()  # built repeatedly
    SHAPES = auto()  # one function traced for each shape


@dataclass(frozen=True)
class AvoidableStart:
    """A part of the start: its time, and how much of it could have been avoided."""

    kind: AvoidableKind
    says: str
    ms: float
    avoidable_ms: float
    places: tuple[Place, ...]
    spread: tuple[float, float] = (0.7, 1.1)  # relative to ``avoidable_ms``, measured on models built again
    when: str = "before the first step"
    also: str = ""  # continues the sentence
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def least_ms(self) -> float:
        """The lower bound of the saving."""
        return self.avoidable_ms * self.spread[0]


def repeated_model_building(trace: Trace) -> AvoidableStart | None:
    """Return models built repeatedly before the first step, as far as samples were in Keras."""
    begins = training_start_ms(trace)
    stack = trace.lane("stack").starting_between(0.0, begins)
    training_traces = [e for e in trace.events_of("trace") if e.data.get("training")]
    stack = stack.where(~starts_within(stack, [*training_traces, *trace.events_of("loop")]))
    keras = np.array([is_in_keras(n) for n in trace.names], dtype=bool)
    imports = trace.lane("import")
    loaded = float(imports.end_ms.max()) if len(imports) else 0.0
    inside = stack.where(keras[stack.name] & (stack.start_ms > loaded)) if len(stack) else stack
    if len(inside) < 5:
        return None
    places = distinct_places(trace.names[int(n)].place for n, _ in Counter(inside.name.tolist()).most_common())
    copies = _built_model_count(trace, begins, places)
    if copies <= 2:  # a model with equally many layers with and without weights counts as two
        return None
    ms = float(ms_of_samples(trace, inside).sum())
    return AvoidableStart(AvoidableKind.MODELS, f"building {copies:.0f} models", ms, ms * (1 - 1 / copies), places[:3])


def repeated_shape_traces(trace: Trace) -> AvoidableStart | None:
    """Return a training function that was traced for several shapes before it was called.

    One trace with open shapes would be enough.
    """
    begins = float(trace.steps.start_ms[0]) if len(trace.steps) else trace.run_ms
    for one in traces_by_function(trace):
        early = [e for e in one.events if e.data.get("training") and e.end_ms <= begins]
        if len(early) >= MIN_SHAPE_TRACES:
            ms = sum(e.ms for e in early)
            says = f"tracing {one.name} {len(early)} times, once for each of its signatures,"
            places = distinct_places(e.place for e in early)
            return AvoidableStart(AvoidableKind.SHAPES, says, ms, ms * (1 - 1 / len(early)), places[:3])
    return None


def _built_model_count(trace: Trace, begins: float, places: tuple[Place, ...]) -> float:
    """Return how many models of the trained one's size were built, from the layers made, else from the loop's count."""
    layers = len({w.get("layer") for e in trace.events_of("loop") for w in e.data.get("weights") or ()})
    if layers:
        # The model's list has no layers without weights; assumes that they are half of the layers made.
        return float((trace.lane("build").start_ms < begins).sum()) / (2 * layers)
    for place in places[:3]:
        tree = source_tree(trace, place.file)
        for loop in loops_around(tree, place.line) if tree is not None else ():
            for call in (n for n in ast.walk(loop) if isinstance(n, ast.Call) and called_name(n) == "range" and n.args):
                value = getattr(call.args[-1], "value", None)
                if isinstance(value, int):
                    return float(value)
    return 0.0
