"""How input pipelines changed over the run: stages that take longer per batch, and data sets that get more stages.

Counters are totals, read about every second. A stage's work between two readings is their difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints
from slowtrain.columns.input_pipeline import CounterHistory, Node, Pipeline, WrittenDataset
from slowtrain.columns.spans import times_of
from slowtrain.model import Place
from slowtrain.trace import Trace

MAX_WINDOW_SHARE = 0.25  # of a stretch under the profiler; with more it measures the profiler's overhead
MIN_BATCHES = 8  # on each side; of fewer, a single long one may be chance
MIN_GROWING_DATASETS = 4  # number of data sets, each longer than the one before


class GrownStage(Struct, frozen=True):
    """A stage that takes longer late than early. ``ms`` and ``elements`` are per batch, early and late."""

    node: Node
    ms: tuple[float, float]
    elements: tuple[float, float]
    a_step: int

    @property
    def us_per_element(self) -> tuple[float, float]:
        early, late = (1e3 * ms / n if n > 0 else 0.0 for ms, n in zip(self.ms, self.elements, strict=True))
        return early, late


def most_grown_stage(trace: Trace, early: Ints, late: Ints) -> tuple[GrownStage, tuple[float, float]] | None:
    """Return the stage that grew most per batch, and the ms of all stages per batch, early and late.

    None if the counters do not cover both. ``early`` and ``late`` are indices of steps.
    """
    pipe = trace.pipeline
    if pipe is None:
        return None
    # A data set that is built again in each epoch appears once per epoch.
    alike = [p for p in trace.pipelines if _pipeline_key(p) == _pipeline_key(pipe)]
    courses = [p.course for p in alike if p.course is not None]
    first, last = (_work_per_batch(trace, courses, index) for index in (early, late))
    if first is None or last is None:
        return None
    (ms, elements), (late_ms, late_elements) = first, last
    is_finite = np.isfinite(ms) & np.isfinite(late_ms)
    if not is_finite.any():
        return None
    i = int(np.argmax(np.where(is_finite, late_ms - ms, -np.inf)))
    a_step = pipe.course.a_step if pipe.course is not None else 1
    grown = GrownStage(
        pipe.nodes[i], (float(ms[i]), float(late_ms[i])), (float(elements[i]), float(late_elements[i])), a_step
    )
    return grown, (float(ms[is_finite].sum()), float(late_ms[is_finite].sum()))


def _pipeline_key(pipe: Pipeline) -> tuple[object, ...]:
    """Return what identifies data sets made by the same lines and run by the same nodes."""
    return tuple((w.op, w.place) for w in pipe.written), tuple(n.name for n in pipe.nodes)


def _work_per_batch(trace: Trace, courses: Sequence[CounterHistory], index: Ints) -> tuple[Floats, Floats] | None:
    """Return ms and elements of each node per batch in the range of these steps; NaN if unknown.

    Uses stretches that lie mostly in the range; in a short run those that overlap it. Their part nearer to the middle
    of the run can only make growth look smaller.
    """
    low, high = float(trace.steps.start_ms[index[0]]), float(trace.steps.end_ms[index[-1]])
    calm = [_undisturbed_stretches(trace, one) for one in courses]
    for mostly in (True, False):
        reach = [(0.5 if mostly else 0.0) * (c.end_ms - c.start_ms) for c in courses]
        inside = [
            k & (c.start_ms + r < high) & (c.end_ms - r > low) for c, k, r in zip(courses, calm, reach, strict=True)
        ]
        if sum(float(c.batches[i].sum()) for c, i in zip(courses, inside, strict=True)) >= MIN_BATCHES:
            return _mean_per_batch(courses, inside)
    return None


def _mean_per_batch(courses: Sequence[CounterHistory], inside: Sequence[Bools]) -> tuple[Floats, Floats]:
    rows = [(c.ms[:, i], c.elements[:, i], c.batches[i]) for c, i in zip(courses, inside, strict=True)]
    ms, elements, batches = (np.concatenate(column, axis=-1) for column in zip(*rows, strict=True))
    known = np.isfinite(ms)
    count = np.where(known, batches, 0.0).sum(axis=1)
    count[count < MIN_BATCHES] = np.nan
    return np.nansum(ms, axis=1) / count, np.nansum(elements, axis=1) / count


def _undisturbed_stretches(trace: Trace, one: CounterHistory) -> Bools:
    """Return the stretches that lie little in profiler windows, which make everything slower."""
    disturbed = intervals.covered_length(times_of(trace.events_of("window")), one.start_ms, one.end_ms)
    return np.asarray(disturbed <= MAX_WINDOW_SHARE * (one.end_ms - one.start_ms))


def find_added_stages(trace: Trace) -> tuple[str, tuple[Place, ...]] | None:
    """Return a sentence about data sets that each extend the previous one, and the added lines; None if they do not."""
    by_source: dict[Place | None, list[Pipeline]] = {}
    for pipe in trace.pipelines:
        if pipe.written:
            by_source.setdefault(pipe.written[0].place, []).append(pipe)
    for same in by_source.values():
        count = [len(pipe.written) for pipe in same]
        if len(same) < MIN_GROWING_DATASETS or any(b <= a for a, b in pairwise(count)):
            continue
        end = _common_tail_length(same[0].written, same[-1].written)
        added = same[-1].written[count[-2] - end : count[-1] - end]
        if any(p.written[: len(q.written) - end] != q.written[: len(q.written) - end] for q, p in pairwise(same)):
            continue
        says = (
            f"its data set has {count[0]} stages in the first epoch and {count[-1]} in the last, because each epoch "
            "adds stages to the previous ones"
        )
        return says, tuple(dict.fromkeys(w.place for w in added if w.place is not None))
    return None


def _common_tail_length(one: Sequence[WrittenDataset], other: Sequence[WrittenDataset]) -> int:
    """Return the number of equal stages at the end of both: those added after each (shuffle, batch, prefetch)."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    alike = [a.place is not None and (a.op, a.place) == (b.op, b.place) for a, b in pairs]
    return alike.index(False) if False in alike else 0
