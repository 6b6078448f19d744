"""The host's side of a trace: spans inside steps, the cost of a graph, the lines of the user's own training loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, median_value
from slowtrain.columns.device import Kernels, Line
from slowtrain.columns.spans import Event, Name, Spans, count_by_place
from slowtrain.model import Category, Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.source_lines import calls_at, source_tree

# Cost of a graph function's call on the host besides the computation of its ops: the call itself, and the
# executor for each op. An op of an eager step becomes about one op of the graph, of which TensorFlow's optimiser
# folds and fuses a part. Of clinic/'s steps as recorded (TensorFlow 2.21, two cores): 0.5 to 1.2 ms a call between
# other Python, against 0.35 ms in a loop of nothing else, and 0.44 ms for five steps that had been eager, on another
# machine; 0.7 to 1.7 µs an op on one machine, 0.3 to 0.6 on another (six steps that had been eager, 11 to 1,730 ops).
# On a machine 1.6 times as fast calls and ops were shorter by as much (machine/samples/core_clock.py).
GRAPH_CALL_MS, LONE_CALL_MS = 0.8, 0.4
GRAPH_OP_MS = 0.0006
MIN_CORE_PACE, MAX_CORE_PACE = 0.2, 5.0  # relative speed of cores; values outside are disturbed measurements
# Between two samples of the same work; after a longer gap something else held the interpreter.
MAX_SAMPLE_GAP_MS = 250.0
MAX_HEAD_LINES = 3  # lines between a loop's head and its body
# Per op that launches a kernel: on an H200 a call of a tf.function that launches 164 kernels takes 2.27 ms.
LAUNCHED_OP_MS = 0.011


def graph_step_ms(trace: Trace, ops: float, computing_ms: float, around_ms: float = GRAPH_CALL_MS) -> float:
    """Return the time of a step of ``ops`` operations that compute for ``computing_ms``, as one graph function.

    ``around_ms`` is the script's own Python between two calls. If that is shorter than a call, calls find warm
    caches. The result is for the machine of the trace.
    """
    call_ms = LONE_CALL_MS if around_ms < GRAPH_CALL_MS else GRAPH_CALL_MS
    op_ms = LAUNCHED_OP_MS if trace.on_accelerator and not trace.on_jax else GRAPH_OP_MS
    return (call_ms + op_ms * ops) / core_pace(trace) + computing_ms


def core_pace(trace: Trace) -> float:
    """Return a core's speed at the start of the run, relative to the machine of the constants above; 1 if unknown."""
    pace = trace.fact("launch", "pace", default=None)
    return min(max(float(pace), MIN_CORE_PACE), MAX_CORE_PACE) if isinstance(pace, (int, float)) and pace > 0 else 1.0


def kernel_ms(kernels: Kernels) -> float:
    """Return the time in kernels per step, those of graphs and those that Python started one by one."""
    return kernels.busy_ms + kernels.eager_ms


def starts_in_steady(trace: Trace, spans: Spans) -> Bools:
    """Return which spans begin in a steady step."""
    steady = trace.steps.steady
    return intervals.containing_range(trace.steps.start_ms[steady], trace.steps.end_ms[steady], spans.start_ms) >= 0


def starts_in_windows(trace: Trace, spans: Spans) -> Bools:
    """Return which spans begin in a window of the recorder, which makes steps longer."""
    return starts_within(spans, trace.events_of("window"))


def ms_per_step(trace: Trace, spans: Spans) -> float:
    """Return ms of ``spans`` in a mean steady step."""
    count = int(trace.steps.steady.sum())
    return float(spans.ms[starts_in_steady(trace, spans)].sum()) / count if count else 0.0


def training_start_ms(trace: Trace) -> float:
    """Return when the first step starts in ms; the run's end without steps."""
    return float(trace.steps.start_ms[0]) if len(trace.steps) else trace.run_ms


def starts_within(spans: Spans, events: Iterable[Event]) -> Bools:
    """Return which spans begin in one of ``events``."""
    inside = np.zeros(len(spans), dtype=bool)
    for event in events:
        inside |= (spans.start_ms >= event.start_ms) & (spans.start_ms < event.end_ms)
    return inside


def is_in_callback(trace: Trace, event: Event) -> bool:
    """Return whether the event is inside a callback's hook."""
    begun = int(np.searchsorted(trace.lane("callback").start_ms, event.start_ms, side="right"))
    return bool(begun and trace.compute_once(_hook_ends)[begun - 1] >= event.end_ms)


def _hook_ends(trace: Trace) -> Floats:
    """Return for each callback hook when the last of the hooks begun by then ends."""
    return np.asarray(np.maximum.accumulate(trace.lane("callback").end_ms))


def sampled_places(trace: Trace, spans: Spans, margin_ms: float = 2.0) -> tuple[Place, ...]:
    """Return the user's lines at which the main thread was sampled during ``spans``, most samples first."""
    samples = trace.lane("stack")
    found: Counter[Place] = Counter()
    for start, end in zip(spans.start_ms.tolist(), spans.end_ms.tolist(), strict=True):
        found.update(count_by_place(trace.names, samples.starting_between(start - margin_ms, end + margin_ms)))
    return tuple(sorted(found, key=lambda p: (-found[p], p.line)))


def is_outermost(spans: Spans) -> Bools:
    """Return which spans no earlier one contains.

    A hook that calls its parent class, or a layer that creates layers, then counts once.
    """
    if not len(spans):
        return np.zeros(0, dtype=bool)
    reach = np.concatenate(([-np.inf], np.maximum.accumulate(spans.end_ms)[:-1]))
    return np.asarray(spans.end_ms > reach)


def spread_over_categories(trace: Trace, ms: float, first: Sequence[Category] = ()) -> dict[Category, float]:
    """Return ``ms`` of a mean step by category: those in ``first`` as far as they reach, the rest by size.

    For work whose own spans contain others (a callback that reads back, a nested ``predict``).
    """
    taken: dict[Category, float] = {}
    left = min(ms, trace.step_ms)
    for category in first:
        taken[category] = min(left, trace.mean(category))
        left -= taken[category]
    others = {c: trace.mean(c) - taken.get(c, 0.0) for c in trace.categories}
    total = sum(others.values())
    if left > 0 and total > 0:
        for category, size in others.items():
            taken[category] = taken.get(category, 0.0) + left * size / total
    return {c: v for c, v in taken.items() if v > 0}


def ms_of_samples(trace: Trace, samples: Spans) -> Floats:
    """Return ms since the previous sample of the stack for each sample; on a busy machine samples are rarer."""
    every = np.sort(trace.lane("stack").start_ms)
    at = np.searchsorted(every, samples.start_ms)
    gap = samples.start_ms - every[np.maximum(at - 1, 0)]
    return np.asarray(np.clip(gap, 0.0, MAX_SAMPLE_GAP_MS))


def sampling_interval_ms(trace: Trace) -> float:
    """Return the median time between two samples of the stack."""
    gaps = np.diff(np.sort(trace.lane("stack").start_ms))
    return float(median_value(gaps)) if len(gaps) else 0.0


def unsampled_ms(trace: Trace, samples: Spans, places: Collection[Place | None]) -> float:
    """Return ms between two consecutive samples, both in ``places``, beyond what the samples stand for.

    Many short calls that release and retake the interpreter's lock can block the recorder's thread for seconds. If
    the next sample finds the same loop, nothing else of the script ran in between.
    """
    order = np.argsort(samples.start_ms)
    start = samples.start_ms[order]
    inside = np.array([trace.names[int(n)].place in places for n in samples.name[order]], dtype=bool)
    at = np.searchsorted(np.sort(trace.lane("stack").start_ms), start)
    side_by_side = (np.diff(at) == 1) & inside[1:] & inside[:-1]
    return float(np.maximum(np.diff(start)[side_by_side] - MAX_SAMPLE_GAP_MS, 0.0).sum())


def distinct_places(places: Iterable[Place | None]) -> tuple[Place, ...]:
    """Return the known places, each once, in order."""
    return tuple(dict.fromkeys(p for p in places if p is not None))


def lane_places(trace: Trace, lane: str) -> set[Place]:
    """Return the user's lines of a lane's spans."""
    return {n.place for n in trace.names if n.lane == lane and n.place is not None}


def step_places(trace: Trace) -> tuple[Place, ...]:
    """Return the line that starts steps; for Keras also the `compile` that could set the steps per execution."""
    keras = trace.steps.source == "fit"
    compiled = [e.place for e in trace.events_of("compile") if keras and e.place is not None]
    written = [
        Place(str(e.data["file"]), int(e.data["line"]))
        for e in trace.events_of("trace")
        if e.data.get("training") and not e.data.get("keras") and e.data.get("file") and e.data.get("line")
    ]
    places = (*compiled[-1:], *written[:1], trace.steps.place)
    return distinct_places(places)[:3]


def is_in_keras(name: Name) -> bool:
    """Return whether a stack sample is in Keras (building or calling a model), outside its image helpers."""
    via = str(name.detail.get("via") or name.detail.get("leaf_file") or "")
    if "/keras/" not in via and "/tf_keras/" not in via:
        return False
    # Every call of a layer goes through Keras' traceback_utils, which is among the helpers.
    return "traceback_utils" in via or ("/utils/" not in via and "/preprocessing/" not in via)


class LoopLines(Struct, frozen=True):
    """Lines before and after the training call. ``outside_ms`` per step is outside that call and the wait for input."""

    before: tuple[Line, ...]
    after: tuple[Line, ...]
    outside_ms: float


def divide_loop(trace: Trace) -> LoopLines:
    """Return the lines of the step before and after the training call, in the order of the source."""
    step = step_line(trace)
    mine = [line for line in trace.loop_lines if line.place != step and line.place not in ms_by_line(trace, "next")]
    after = tuple(line for line in mine if is_after_step(trace, line.place))
    outside = sum(trace.mean(c) for c in (Category.PYTHON, Category.CONVERT, Category.FEED, Category.READBACK))
    return LoopLines(tuple(line for line in mine if line not in after), after, outside)


def step_line(trace: Trace) -> Place | None:
    """Return the line whose call begins most steady steps. A script may warm up with another call."""
    return trace.compute_once(_find_step_line)


def is_after_step(trace: Trace, place: Place) -> bool:
    """Return whether a line comes after the call that begins most steps, whose arguments may span several lines."""
    step = step_line(trace)
    return step is not None and place.file == step.file and place.line > trace.compute_once(_step_call_end)


def _step_call_end(trace: Trace) -> int:
    """Return the last line of the call that begins most steps."""
    step = step_line(trace)
    tree = source_tree(trace, step.file) if step is not None else None
    if step is None or tree is None:
        return step.line if step is not None else 0
    calls = (n for n in calls_at(tree, step.line) if n.lineno == step.line)
    return max((n.end_lineno or n.lineno for n in calls), default=step.line)


def _find_step_line(trace: Trace) -> Place | None:
    begun = np.append(trace.steps.start_ms[trace.steps.steady], np.inf)
    for lane in ("function", "on_batch", "gradient"):
        spans = trace.lane(lane)
        first = begun[np.searchsorted(begun, spans.start_ms)] == spans.start_ms
        if count := count_by_place(trace.names, spans.where(first)):
            return max(count, key=lambda p: count[p])
    return trace.steps.place


def ms_by_line(trace: Trace, lane: str) -> Mapping[Place, float]:
    """Return the user's lines of a lane's spans with their ms per steady step, costliest first."""
    return trace.compute_once(_find_ms_by_line, lane)


def _find_ms_by_line(trace: Trace, lane: str) -> Mapping[Place, float]:
    spans, steps = trace.lane(lane), trace.steps
    count = int(steps.steady.sum())
    found: dict[Place, float] = {}
    if not len(spans) or not count:
        return found
    inside = spans.where(starts_in_steady(trace, spans))
    numbers, inverse = np.unique(inside.name, return_inverse=True)
    ms = np.bincount(inverse, inside.ms, minlength=len(numbers)) / count
    for number, spent in sorted(zip(numbers, ms, strict=True), key=lambda i: -i[1]):
        place = trace.names[int(number)].place
        if place is not None:
            found[place] = found.get(place, 0.0) + float(spent)
    return found


def spans_per_step(trace: Trace, lane: str, wanted: Collection[Place] | None = None) -> float:
    """Return the number of a lane's spans per steady step: all, or those from the ``wanted`` lines."""
    count = int(trace.steps.steady.sum())
    if not count:
        return 0.0
    inside = (spans := trace.lane(lane)).where(starts_in_steady(trace, spans))
    if wanted is None:
        return len(inside) / count
    numbers, times = np.unique(inside.name, return_counts=True)
    return int(times[[trace.names[int(n)].place in wanted for n in numbers]].sum()) / count


def with_loop_heads(lines: tuple[Line, ...], wanted: set[Place]) -> tuple[Line, ...]:
    """Return the wanted lines, and the heads of loops that run as often as they do."""
    chosen = [line for line in lines if line.place in wanted]
    for line in lines:
        if line in chosen:
            continue
        file, number = line.place.file, line.place.line
        heads = (c for c in chosen if c.place.file == file and 0 < c.place.line - number <= MAX_HEAD_LINES)
        if any(c.visits >= 2 and abs(line.visits - c.visits) <= 0.2 * c.visits + 2 for c in heads):
            chosen.append(line)
    return tuple(sorted(chosen, key=lambda c: -c.ms))


def batch_comes_from_python(trace: Trace) -> bool:
    """Return whether the loop provides each batch itself: no TensorFlow data set is read in the steps."""
    keras = trace.steps.source in ("fit", "evaluate", "predict")
    return bool(len(trace.steps)) and not keras and spans_per_step(trace, "next") < 0.5
