"""How input pipelines changed over the run: stages that take longer per batch, and data sets that get more stages.

Counters are totals, read about every second. A stage's work between two readings is their difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints
from slowtrain.columns.input_pipeline import CounterHistory, Node, Pipeline, WrittenDataset
from slowtrain.columns.spans import times_of
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.loading import iterator_counters
from slowtrain.trace.loading.iterator_counters import IteratorCounters

MAX_STRETCHES = 400  # stretches of one data set; each takes a tenth of a millisecond to read
MAX_WINDOW_SHARE = 0.25  # of a stretch under the profiler; with more it measures the profiler's overhead
MIN_BATCHES = 8  # on each side; of fewer, a single long one may be chance

TimedReadings = Sequence[tuple[float, IteratorCounters]]
NodeKey = tuple[str, int]  # a node's name, and its index in the plan (-1: not written by the user)


@dataclass(frozen=True)
class IteratorReadings:
    """One iterator: when it was created, and its readings with their times, in ms of the run."""

    begun_ms: float
    read: TimedReadings


@dataclass(frozen=True)
class GrownStage:
    """A stage that takes longer late than early. ``ms`` and ``elements`` are per batch, early and late."""

    node: Node
    ms: tuple[float, float]
    elements: tuple[float, float]
    a_step: int

    @property
    def us_per_element(self) -> tuple[float, float]:
        early, late = (1e3 * ms / n if n > 0 else 0.0 for ms, n in zip(self.ms, self.elements, strict=True))
        return early, late


def counter_history(pipe: Pipeline, iterators: Sequence[IteratorReadings]) -> CounterHistory | None:
    """Return the nodes' work between readings of its iterators; None without two such stretches."""
    keys = _node_keys(pipe.nodes, pipe.written)
    most = max(MAX_STRETCHES // max(len(iterators), 1), 1)
    columns = [one for each in iterators for one in _reading_stretches(pipe.written, each, most)]
    columns.sort(key=lambda one: one[0])
    if not keys or len(columns) < 2:
        return None
    first = [keys.index(key) == i for i, key in enumerate(keys)]  # one of several equal nodes holds the work of all
    none = (np.nan, np.nan)
    rows = [[c[3].get(key, none) if mine else none for c in columns] for key, mine in zip(keys, first, strict=True)]
    both = np.array(rows, dtype=float)
    start, end, batches = (np.array([c[i] for c in columns], dtype=float) for i in range(3))
    return CounterHistory(start, end, batches, both[:, :, 0], both[:, :, 1])


def _reading_stretches(
    plan: tuple[WrittenDataset, ...], one: IteratorReadings, most: int
) -> Iterator[tuple[float, float, float, dict[NodeKey, tuple[float, float]]]]:
    """Yield start, end, batches, and ms and elements of each node.

    The work since the iterator began includes the first filling of buffers. It is used only if there are no two
    readings with work between them.
    """
    rows = [one.read[i] for i in np.unique(np.linspace(0, len(one.read) - 1, most + 1).astype(int))]
    found = [(a, b, _work_between(plan, before, after)) for (a, before), (b, after) in itertools.pairwise(rows)]
    if not any(did[1] for _, _, did in found):
        at, fullest = max(one.read, key=lambda row: len(row[1].nodes))
        found = [(one.begun_ms, at, _work_between(plan, None, fullest))]
    yield from ((a, b, batches, did) for a, b, (batches, did) in found if did)


def _work_between(
    plan: tuple[WrittenDataset, ...], before: IteratorCounters | None, after: IteratorCounters
) -> tuple[float, dict[NodeKey, tuple[float, float]]]:
    """Return batches, and total ms and elements of each node.

    TensorFlow drops a node when its data ends, and creates it again for the next pass. Nodes of that name are left
    out.
    """
    told = before.nodes if before is not None else after.nodes
    changed = {(told.get(n) or after.nodes[n])["name"] for n in told.keys() ^ after.nodes.keys()}
    pipe = iterator_counters.pipeline_between(plan, before, after, None, keras=False)
    did: dict[NodeKey, tuple[float, float]] = {}
    for node, key in zip(pipe.nodes, _node_keys(pipe.nodes, plan), strict=True):
        if node.name not in changed:
            ms, elements = did.get(key, (0.0, 0.0))
            did[key] = ms + node.ms * pipe.batches, elements + node.elements * pipe.batches
    return float(pipe.batches), did


def _node_keys(nodes: Sequence[Node], plan: tuple[WrittenDataset, ...]) -> list[NodeKey]:
    number = {id(one): i for i, one in enumerate(plan)}
    return [(n.name, number.get(id(n.written), -1)) for n in nodes]


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
    told = np.isfinite(ms) & np.isfinite(late_ms)
    if not told.any():
        return None
    i = int(np.argmax(np.where(told, late_ms - ms, -np.inf)))
    a_step = pipe.course.a_step if pipe.course is not None else 1
    grown = GrownStage(
        pipe.nodes[i], (float(ms[i]), float(late_ms[i])), (float(elements[i]), float(late_elements[i])), a_step
    )
    return grown, (float(ms[told].sum()), float(late_ms[told].sum()))


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


MIN_GROWING_DATASETS = 4  # number of data sets, each longer than the one before


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
