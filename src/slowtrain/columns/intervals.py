"""Arithmetic with sets of intervals; a set is a pair of sorted NumPy columns (starts, ends). All vectorised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

import numpy as np

from slowtrain.columns.arrays import Bools, Floats, Ints

Owner = TypeVar("Owner")
Intervals = tuple[Floats, Floats]

EMPTY: Intervals = (np.zeros(0), np.zeros(0))
MAX_INTERVALS_AT_ONCE = 1 << 16  # processed in one pass, to bound temporary memory


def single(start: float, end: float) -> Intervals:
    """Return one interval; empty unless ``start`` is before ``end``."""
    return union(np.array([start]), np.array([end]))


def union(start: Floats, end: Floats) -> Intervals:
    """Return disjoint, ordered intervals that cover the same moments. The input may overlap and be unordered."""
    if not (keep := end > start).all():
        start, end = start[rows := np.flatnonzero(keep)], end[rows]
    if not len(start):
        return EMPTY
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    fresh = np.flatnonzero(start[1:] > reach[:-1])
    if len(fresh) == len(start) - 1:
        return start, reach
    return start[np.append(0, fresh + 1)], reach[np.append(fresh, -1)]


def sorted_positions(known: Floats, at: Floats, side: Literal["left", "right"] = "left") -> Ints:
    """Same as ``np.searchsorted(known, at, side)`` for sorted ``at``; faster if ``at`` is long and ``known`` short."""
    if 8 * len(known) > len(at):
        return np.searchsorted(known, at, side)
    first = np.searchsorted(at, known, "left" if side == "right" else "right")
    return np.cumsum(np.bincount(first, minlength=len(at) + 1)[: len(at)])


def union_all(parts: Iterable[Intervals]) -> Intervals:
    """Return disjoint, ordered intervals that cover the same moments as all the parts, which may overlap."""
    starts, ends = [EMPTY[0]], [EMPTY[1]]
    for start, end in parts:
        starts.append(start)
        ends.append(end)
    return union(np.concatenate(starts), np.concatenate(ends))


def containing_range(start: Floats, end: Floats, at: Floats) -> Ints:
    """Return for each moment the row of the range ``[start, end)`` that contains it, -1 if none does.

    The ranges are ordered by start. Of overlapping ones only the last that began is looked at.
    """
    if not len(start):
        return np.full(len(at), -1)
    row = np.searchsorted(start, at, side="right") - 1
    return np.where((row >= 0) & (at < end[row]), row, -1)


def is_outermost(start: Floats, end: Floats) -> Bools:
    """Return which spans, ordered by start, begin after all earlier ones have ended."""
    return np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])[: len(start)]


def total_length(intervals: Intervals) -> float:
    """Return the summed length of disjoint intervals."""
    return float((intervals[1] - intervals[0]).sum())


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Return the moments that are in both sets. Both must be disjoint and ordered."""
    if len(a[0]) > len(b[0]):
        a, b = b, a
    if not len(a[0]):
        return EMPTY
    low = np.searchsorted(b[1], a[0], side="right")
    high = np.searchsorted(b[0], a[1], side="left")
    count = np.maximum(high - low, 0)
    if len(a[0]) == 1:
        theirs = slice(int(low[0]), int(low[0] + count[0]))
        return np.maximum(a[0], b[0][theirs]), np.minimum(a[1], b[1][theirs])
    del high
    start, end = np.empty(count.sum()), np.empty(count.sum())
    filled = 0
    for first in range(0, len(count), MAX_INTERVALS_AT_ONCE):
        some = first + np.flatnonzero(count[first : first + MAX_INTERVALS_AT_ONCE])
        many = count[some]
        mine = np.repeat(some, many)
        theirs = np.arange(len(mine)) + np.repeat(low[some] - (np.cumsum(many) - many), many)
        part = slice(filled, filled + len(mine))
        np.maximum(a[0][mine], b[0][theirs], out=start[part])
        np.minimum(a[1][mine], b[1][theirs], out=end[part])
        filled += len(mine)
    return start, end


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Return the moments of ``a`` that are not in ``b``. Both must be disjoint and ordered."""
    if not len(a[0]) or not len(b[0]):
        return a
    gaps = (np.concatenate(([-np.inf], b[1])), np.concatenate((b[0], [np.inf])))
    start, end = intersect(a, gaps)
    if (keep := end > start).all():
        return start, end
    rows = np.flatnonzero(keep)
    return start[rows], end[rows]


def covered_length(intervals: Intervals, start: Floats, end: Floats) -> Floats:
    """Return for each range ``[start, end)`` how much of it the disjoint ``intervals`` cover."""
    if not len(intervals[0]):
        return np.zeros(len(start))
    sums = np.concatenate(([0.0], np.cumsum(intervals[1] - intervals[0])))

    def covered_until(at: Floats) -> Floats:
        """Covered time from the beginning to ``at``."""
        i = np.searchsorted(intervals[0], at, side="right")
        full = sums[i]
        last = np.maximum(i - 1, 0)
        over = np.where(i > 0, np.maximum(intervals[1][last] - at, 0.0), 0.0)
        return np.asarray(full - over)

    return covered_until(end) - covered_until(start)


def overlap_per_range(start: Floats, end: Floats, low: Floats, high: Floats) -> Floats:
    """Return for each range ``[low, high)`` the summed time of all spans inside it; overlapping spans each count."""
    if not len(start):
        return np.zeros(len(low))
    origin = start.min()  # subtracted, because sums of small numbers keep more digits

    def time_since_edges(edges: Floats) -> Callable[[Floats], Floats]:
        """Summed time from each edge before a moment to that moment."""
        edges = np.sort(edges) - origin
        sums = np.concatenate(([0.0], np.cumsum(edges)))

        def time_until(at: Floats) -> Floats:
            count = np.searchsorted(edges, at - origin)
            return np.asarray(count * (at - origin) - sums[count])

        return time_until

    since_start, since_end = time_since_edges(start), time_since_edges(end)
    return (since_start(high) - since_end(high)) - (since_start(low) - since_end(low))


def innermost_owners(
    spans: Iterable[tuple[float, float, Owner]], low: float, high: float, outside: Owner
) -> Iterator[tuple[float, float, Owner]]:
    """Yield ``(start, end, owner)`` from ``low`` to ``high``: the innermost of nested spans owns each moment.

    ``outside`` owns the moments that no span covers.
    """
    at, open_spans = low, list[tuple[float, Owner]]()

    def stretches_until(moment: float) -> Iterator[tuple[float, float, Owner]]:
        nonlocal at
        moment = min(max(moment, low), high)
        if moment > at:
            yield at, moment, open_spans[-1][1] if open_spans else outside
            at = moment

    for start, end, owner in sorted(spans, key=lambda s: (s[0], -s[1])):
        while open_spans and open_spans[-1][0] <= start:
            yield from stretches_until(open_spans[-1][0])
            open_spans.pop()
        yield from stretches_until(start)
        open_spans.append((end, owner))
    while open_spans:
        yield from stretches_until(open_spans[-1][0])
        open_spans.pop()
    yield from stretches_until(high)


def enclosing_spans(start: Floats, end: Floats) -> Ints:
    """Return the row of the innermost enclosing span of each span, -1 if there is none.

    Spans must be properly nested and sorted by start, the longest first.
    """
    n = len(start)
    parent = np.full(n, -1, dtype=np.int64)
    if not n:
        return parent
    depth = np.arange(n) - np.searchsorted(np.sort(end), start, side="right")
    depth = np.maximum(depth, 0)
    for level in range(1, int(depth.max()) + 1):
        above, here = np.flatnonzero(depth == level - 1), np.flatnonzero(depth == level)
        if len(above) and len(here):
            at = np.searchsorted(above, here) - 1
            parent[here] = np.where(at >= 0, above[np.maximum(at, 0)], -1)
    return parent
