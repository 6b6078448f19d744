"""Shuffle buffers: how long each epoch waits until one is full, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from slowtrain.model import Category, Place
from slowtrain.trace import Trace
from slowtrain.trace.pipeline import Node

LEAST_FILL = 3.0  # times a usual step: a first step that waits longer waits for something to fill
FIRST = 2  # steps of an epoch in which a filling buffer shows


@dataclass(frozen=True)
class Fill:
    """``step_ms``: the wait for filling, spread over the steady steps; ``outside_ms``: of the run, between the steps.

    ``overlapped_ms`` a step remains when elements are made while the steps run.
    """

    node: Node
    step_ms: float
    outside_ms: float
    overlapped_ms: float
    epochs: int
    each_ms: float

    @property
    def place(self) -> tuple[Place, ...]:
        return (self.node.written.place,) if self.node.written and self.node.written.place else ()


def fill(trace: Trace) -> Fill | None:
    """The user's shuffle buffer whose filling the epochs wait for, or None."""
    pipe = trace.pipeline
    if pipe is None:
        return None
    nodes = [n for n in pipe.nodes if n.family == "Shuffle" and n.written and n.written.place]
    if not nodes:
        return None
    node = nodes[-1]
    inside, first, each = _inside_ms(trace)
    outside, times = _outside_ms(trace)
    if inside + outside <= 0:
        return None
    count = max(int(trace.steps.steady.sum()), 1)
    rest = trace.step_ms - trace.mean(Category.INPUT)
    # Per batch, what feeds the buffer would make one batch of elements, not a buffer.
    up = pipe.upstream(node)
    per = node.elements / max(max((n.elements for n in up), default=node.elements), 1e-9)
    ahead = pipe.changed(*(replace(n, ms=n.ms * min(per, 1.0)) for n in up)).made_ms
    modelled = pipe.made_ms
    measured = (
        (inside + outside / max(len(trace.steps) / count, 1e-9)) / count
        if inside
        else outside / max(len(trace.steps), 1)
    )
    made = ahead * (measured / modelled) if modelled > 0 else 0.0
    epochs = first + times
    return Fill(node, inside / count, outside, max(made - rest, 0.0), epochs, max(each, outside / max(times, 1)))


def _inside_ms(trace: Trace) -> tuple[float, int, float]:
    """Ms over all steady steps that the first steps of epochs wait beyond usual ones; how many, and each one's."""
    column, steps = trace.categories.get(Category.INPUT), trace.steps
    if column is None or not steps.steady.any():
        return 0.0, 0, 0.0
    starts = np.flatnonzero(np.diff(steps.block, prepend=-1) != 0)
    head = np.zeros(len(steps), dtype=bool)
    for shift in range(FIRST):
        head[np.minimum(starts + shift, len(steps) - 1)] = True
    usual = float(np.median(steps.ms[steps.steady & ~head])) if (steps.steady & ~head).any() else 0.0
    mine = steps.steady & head & (column > LEAST_FILL * usual)
    total = float(column[mine].sum())
    if total < 0.5 * float(column[steps.steady].sum()):
        return 0.0, 0, 0.0
    return total, int(mine.sum()), total / max(int(mine.sum()), 1)


def _outside_ms(trace: Trace) -> tuple[float, int]:
    """Ms that a loop waits for its first batches before the first step of an epoch, and how often."""
    spans, steps = trace.lane("next"), trace.steps
    if not len(spans) or not len(steps):
        return 0.0, 0
    usual = float(np.median(spans.ms))
    at = np.searchsorted(steps.start_ms, spans.start_ms, side="right") - 1
    between = (at < 0) | (spans.start_ms >= steps.end_ms[np.maximum(at, 0)])
    mine = between & (spans.ms > max(LEAST_FILL * usual, LEAST_FILL * trace.step_ms))
    return float(spans.ms[mine].sum()), int(mine.sum())
