"""The user's own training loop: what its Python does before and after the training call, by line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from slowtrain.columns.kernels import Line
from slowtrain.columns.spans import Spans
from slowtrain.model import Category, Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.source_lines import calls_at

MAX_HEAD_LINES = 3  # lines between a loop's head and its body


@dataclass(frozen=True)
class LoopLines:
    """Lines before and after the training call. ``outside_ms`` per step is outside that call and the wait for input."""

    before: tuple[Line, ...]
    after: tuple[Line, ...]
    outside_ms: float


def divide_loop(trace: Trace) -> LoopLines:
    """Return the lines of the step before and after the training call, in the order of the source."""
    step = step_line(trace)
    mine = [line for line in trace.loop_lines if line.place != step and line.place not in ms_by_line(trace, "next")]
    before: list[Line] = []
    after: list[Line] = []
    for line in mine:
        (after if is_after_step(trace, line.place) else before).append(line)
    outside = sum(trace.mean(c) for c in (Category.PYTHON, Category.CONVERT, Category.FEED, Category.READBACK))
    return LoopLines(tuple(before), tuple(after), outside)


def step_line(trace: Trace) -> Place | None:
    """Return the line whose call begins most steady steps. A script may warm up with another call."""
    return trace.once(_find_step_line)


def is_after_step(trace: Trace, place: Place) -> bool:
    """Return whether a line comes after the call that begins most steps, whose arguments may span several lines."""
    step = step_line(trace)
    return step is not None and place.file == step.file and place.line > trace.once(_step_call_end)


def _step_call_end(trace: Trace) -> int:
    """Return the last line of the call that begins most steps."""
    step = step_line(trace)
    tree = host_work.source_tree(trace, step.file) if step is not None else None
    if step is None or tree is None:
        return step.line if step is not None else 0
    calls = (n for n in calls_at(tree, step.line) if n.lineno == step.line)
    return max((n.end_lineno or n.lineno for n in calls), default=step.line)


def _find_step_line(trace: Trace) -> Place | None:
    begun = np.append(trace.steps.start_ms[trace.steps.steady], np.inf)
    count: dict[Place, int] = {}
    for lane in ("function", "on_batch", "gradient"):
        spans = trace.lane(lane)
        first = begun[np.searchsorted(begun, spans.start_ms)] == spans.start_ms
        for number, times in zip(*np.unique(spans.name[first], return_counts=True), strict=True):
            place = trace.names[int(number)].place
            if place is not None:
                count[place] = count.get(place, 0) + int(times)
        if count:
            return max(count, key=lambda p: count[p])
    return trace.steps.place


def ms_by_line(trace: Trace, lane: str) -> Mapping[Place, float]:
    """Return the user's lines of a lane's spans with their ms per steady step, costliest first."""
    return trace.once(_find_ms_by_line, lane)


def _find_ms_by_line(trace: Trace, lane: str) -> Mapping[Place, float]:
    spans, steps = trace.lane(lane), trace.steps
    count = int(steps.steady.sum())
    found: dict[Place, float] = {}
    if not len(spans) or not count:
        return found
    inside = _steady_spans(trace, spans)
    numbers, inverse = np.unique(inside.name, return_inverse=True)
    ms = np.bincount(inverse, inside.ms, minlength=len(numbers)) / count if len(numbers) else np.zeros(0)
    for number, spent in sorted(zip(numbers, ms, strict=True), key=lambda i: -i[1]):
        place = trace.names[int(number)].place
        if place is not None:
            found[place] = found.get(place, 0.0) + float(spent)
    return found


def _steady_spans(trace: Trace, spans: Spans) -> Spans:
    """Return the spans that start in a steady step."""
    start, end = trace.steps.start_ms[trace.steps.steady], trace.steps.end_ms[trace.steps.steady]
    at = np.searchsorted(start, spans.start_ms, side="right") - 1
    return spans.where((at >= 0) & (spans.start_ms < end[np.maximum(at, 0)]))


def spans_per_step(trace: Trace, lane: str, wanted: Collection[Place] | None = None) -> float:
    """Return the number of a lane's spans per steady step: all, or those from the ``wanted`` lines."""
    count = int(trace.steps.steady.sum())
    inside = _steady_spans(trace, trace.lane(lane))
    if wanted is None or not count:
        return len(inside) / count if count else 0.0
    numbers, times = np.unique(inside.name, return_counts=True)
    return int(times[[trace.names[int(n)].place in wanted for n in numbers]].sum()) / count


def with_loop_heads(lines: tuple[Line, ...], wanted: set[Place]) -> tuple[Line, ...]:
    """Return the wanted lines, and the heads of loops that run as often as they do."""
    chosen = [line for line in lines if line.place in wanted]
    for line in lines:
        if line in chosen:
            continue
        heads = (
            c
            for c in chosen
            if c.place.file == line.place.file and 0 < c.place.line - line.place.line <= MAX_HEAD_LINES
        )
        if any(c.visits >= 2 and abs(line.visits - c.visits) <= 0.2 * c.visits + 2 for c in heads):
            chosen.append(line)
    return tuple(sorted(chosen, key=lambda c: -c.ms))


def batch_comes_from_python(trace: Trace) -> bool:
    """Return whether the loop provides each batch itself: no TensorFlow data set is read in the steps."""
    keras = trace.steps.source in ("fit", "evaluate", "predict")
    return bool(len(trace.steps)) and not keras and spans_per_step(trace, "next") < 0.5
