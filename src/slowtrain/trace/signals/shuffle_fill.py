"""The shuffle buffer that epochs wait for while it fills."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns.arrays import median_value
from slowtrain.columns.input_pipeline import Node, largest_parallelism
from slowtrain.model import Category
from slowtrain.trace import Trace

MIN_FILL_RATIO = 3.0  # times a usual step; a first step that waits longer waits for a buffer to fill
MAX_FILL_RATIO = 5.0  # times the making of its elements; a longer wait has another reason
FILL_STEPS_PER_EPOCH = 2  # first steps of an epoch that wait for a filling buffer


class ShuffleFill(Struct, frozen=True):
    """``step_ms``: wait for filling, spread over the steady steps. ``outside_ms``: wait between steps, in the run.

    ``overlapped_ms`` per step remains if elements are made while the steps run.
    """

    node: Node
    step_ms: float
    outside_ms: float
    overlapped_ms: float
    epochs: int
    each_ms: float


def find_shuffle_fill(trace: Trace) -> ShuffleFill | None:
    """Return the user's shuffle buffer that epochs wait for while it fills, or None."""
    pipe = trace.pipeline
    if pipe is None:
        return None
    nodes = [n for n in pipe.nodes if n.family == "Shuffle" and n.written and n.written.place]
    if not nodes:
        return None
    node = nodes[-1]
    inside, first, each = _fill_ms_in_steps(trace)
    outside, times = _fill_ms_between_steps(trace)
    if not outside and (begun := _first_call_fill_ms(trace, node)) > MIN_FILL_RATIO * trace.step_ms:
        outside, times = begun, 1
    if inside + outside <= 0:
        return None
    if max(each, outside / max(times, 1)) > MAX_FILL_RATIO * (_buffer_fill_ms(trace, node) or np.inf):
        return None
    count = max(int(trace.steps.steady.sum()), 1)
    rest = trace.step_ms - trace.mean(Category.INPUT)
    epochs, each = first + times, max(each, outside / max(times, 1))
    batch_ms = _batch_making_ms(trace, node, each)
    # Elements made during the steps share the cores with them; before, they were made while the steps waited.
    own = float(trace.facts.get("step_cpu_ms") or 0.0)
    making_cores = min(largest_parallelism(pipe.upstream_nodes(node)), trace.cores)
    shared = (min(own, trace.cores * rest) + batch_ms * making_cores) / trace.cores if own else 0.0
    return ShuffleFill(node, inside / count, outside, max(batch_ms - rest, shared - rest, 0.0), epochs, each)


def _first_call_fill_ms(trace: Trace, node: Node) -> float:
    """Return ms that the first training call waits until the buffer is full; 0 if unknown.

    That call also traces and compiles. Tracing is measured separately. Of the rest at most the time of making the
    elements is counted.
    """
    steps, filling = trace.steps, _buffer_fill_ms(trace, node)
    if not len(steps) or not filling:
        return 0.0
    begun = float(steps.start_ms[0])
    first = [e for e in trace.events_of("trace") if e.data.get("training") and e.start_ms <= float(steps.end_ms[0])]
    calls = [e.ms - float(e.data.get("trace_ns") or 0) / 1e6 for e in first if e.end_ms > begun]
    return max(min(max(calls, default=0.0) - trace.step_ms, filling), 0.0)


def _buffer_fill_ms(trace: Trace, node: Node) -> float:
    """Return the time to make all elements that the buffer holds, from the counters; 0 if unknown."""
    pipe, elements = trace.pipeline, _buffer_elements(node)
    up = pipe.upstream_nodes(node) if pipe is not None else []
    passed = max((n.elements for n in up if n.id in node.inputs), default=node.elements)
    if not elements or passed <= 0:
        return 0.0
    return elements * (sum(n.ms / max(n.parallelism or 1.0, 1.0) for n in up) + node.ms) / passed


def _buffer_elements(node: Node) -> int:
    """Return the elements in the full buffer, 0 if unknown."""
    sizes = [int(n) for key in ("buffer_size", "cardinality") if node.written and (n := node.written.detail.get(key))]
    return min((n for n in sizes if n > 0), default=0)


def _batch_making_ms(trace: Trace, node: Node, each_ms: float) -> float:
    """Return the time to make a batch's elements, from the time that filling the buffer took per element."""
    batch = node.elements
    elements = _buffer_elements(node)
    if elements >= batch > 0:
        return each_ms / elements * batch
    # The buffer's size is unknown: uses the nodes that feed it, scaled to one batch of elements.
    pipe = trace.pipeline
    if pipe is None:
        return 0.0
    up = pipe.upstream_nodes(node)
    per = batch / max(max((n.elements for n in up), default=batch), 1e-9)
    return pipe.with_nodes(*(replace(n, ms=n.ms * min(per, 1.0)) for n in up)).made_ms


def _fill_ms_in_steps(trace: Trace) -> tuple[float, int, float]:
    """Return total ms that the first steps of epochs wait beyond usual steps, their number, and ms of each."""
    column, steps = trace.categories.get(Category.INPUT), trace.steps
    if column is None or not steps.steady.any():
        return 0.0, 0, 0.0
    starts = np.flatnonzero(np.diff(steps.block, prepend=-1) != 0)
    head = np.zeros(len(steps), dtype=bool)
    for shift in range(FILL_STEPS_PER_EPOCH):
        head[np.minimum(starts + shift, len(steps) - 1)] = True
    usual = float(median_value(steps.ms[steps.steady & ~head])) if (steps.steady & ~head).any() else 0.0
    mine = steps.steady & head & (column > MIN_FILL_RATIO * usual)
    total = float(column[mine].sum())
    if total < 0.5 * float(column[steps.steady].sum()):
        return 0.0, 0, 0.0
    return total, int(mine.sum()), total / max(int(mine.sum()), 1)


def _fill_ms_between_steps(trace: Trace) -> tuple[float, int]:
    """Return ms that a loop waits for its first batches before the first step of an epoch, and how often."""
    spans, steps = trace.lane("next"), trace.steps
    if not len(spans) or not len(steps):
        return 0.0, 0
    usual = float(median_value(spans.ms))
    at = np.searchsorted(steps.start_ms, spans.start_ms, side="right") - 1
    between = (at < 0) | (spans.start_ms >= steps.end_ms[np.maximum(at, 0)])
    mine = between & (spans.ms > max(MIN_FILL_RATIO * usual, MIN_FILL_RATIO * trace.step_ms))
    return float(spans.ms[mine].sum()), int(mine.sum())
