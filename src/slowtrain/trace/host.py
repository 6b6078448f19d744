"""Facts about the host's side of a trace that several causes ask for: whose spans lie in steps, what a graph costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.model import Category, Place
from slowtrain.trace import Bools, Event, Kernels, Spans, Trace, place_of

# What a call of a graph function costs on the host besides its ops' own computing: the call itself, and the
# executor for each op. Least-squares over pairs of the same step run eagerly and as a tf.function, 2 to 170 ops
# a step, TensorFlow 2.21 on two cores; an op of an eager step becomes about one op of the graph, of which
# TensorFlow's optimiser folds and fuses a part.
CALL_MS = 0.35
OP_MS = 0.0015


def graph_ms(ops: float, computing_ms: float) -> float:
    """What a step of ``ops`` operations that compute for ``computing_ms`` takes as one graph function."""
    return CALL_MS + OP_MS * ops + computing_ms


def computing_ms(kernels: Kernels) -> float:
    """Time in kernels a step, those of graphs and those that Python started one by one."""
    return kernels.busy_ms + kernels.eager_ms


def main_thread(trace: Trace) -> int:
    """The thread that trains: the one with most of the spans that only it can have."""
    for lane in ("import", "loop", "step", "function", "build", "gc"):
        spans = trace.lane(lane)
        if len(spans):
            values, counts = np.unique(spans.thread, return_counts=True)
            return int(values[np.argmax(counts)])
    return 1


def in_steady(trace: Trace, spans: Spans) -> Bools:
    """Which spans begin in a steady step."""
    return _in(trace, spans, trace.steps.steady)


def in_windows(trace: Trace, spans: Spans) -> Bools:
    """Which spans begin in a step that a profiler window made longer, or in the window around it."""
    inside = np.zeros(len(spans), dtype=bool)
    for event in trace.events_of("window"):
        inside |= (spans.start_ms >= event.start_ms) & (spans.start_ms < event.end_ms)
    return inside


def _in(trace: Trace, spans: Spans, which: Bools) -> Bools:
    start, end = trace.steps.start_ms[which], trace.steps.end_ms[which]
    if not len(start):
        return np.zeros(len(spans), dtype=bool)
    at = np.searchsorted(start, spans.start_ms, side="right") - 1
    return np.asarray((at >= 0) & (spans.start_ms < end[np.maximum(at, 0)]))


def per_step(trace: Trace, spans: Spans) -> float:
    """Ms of ``spans`` in a mean steady step."""
    count = int(trace.steps.steady.sum())
    return float(spans.ms[in_steady(trace, spans)].sum()) / count if count else 0.0


def training_begins(trace: Trace) -> float:
    """When the first step starts, ms; the run's end when there is none."""
    return float(trace.steps.start_ms[0]) if len(trace.steps) else trace.run_ms


def within(spans: Spans, events: Iterable[Event]) -> Bools:
    """Which spans begin in one of ``events``."""
    inside = np.zeros(len(spans), dtype=bool)
    for event in events:
        inside |= (spans.start_ms >= event.start_ms) & (spans.start_ms < event.end_ms)
    return inside


def sampled_places(trace: Trace, spans: Spans, margin_ms: float = 2.0) -> tuple[Place, ...]:
    """The user's lines at which the main thread was sampled during ``spans``, most samples first."""
    samples = trace.lane("stack")
    found: dict[Place, int] = {}
    for start, end in zip(spans.start_ms, spans.end_ms):
        for number in samples.between(float(start) - margin_ms, float(end) + margin_ms).name:
            place = place_of(trace.names[int(number)].detail.get("site"))
            if place is not None:
                found[place] = found.get(place, 0) + 1
    return tuple(sorted(found, key=lambda p: (-found[p], p.line)))


def outermost(spans: Spans) -> Bools:
    """Spans that no earlier one contains: a hook that calls its parent class, a layer that makes layers, count once."""
    if not len(spans):
        return np.zeros(0, dtype=bool)
    reach = np.concatenate(([-np.inf], np.maximum.accumulate(spans.end_ms)[:-1]))
    return np.asarray(spans.end_ms > reach)


def anywhere(trace: Trace, ms: float, first: Sequence[Category] = ()) -> dict[Category, float]:
    """``ms`` of a mean step by category: those in ``first`` as far as they reach, beyond that all by their size.

    For work whose own spans hold others (a callback that reads back, a nested ``predict``).
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
