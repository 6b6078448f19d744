"""Arithmetic with sets of intervals, each a pair of sorted NumPy columns (starts, ends), all vectorised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Intervals = tuple[Floats, Floats]

EMPTY: Intervals = (np.zeros(0), np.zeros(0))


def union(start: Floats, end: Floats) -> Intervals:
    """Disjoint intervals in order that cover the same moments."""
    keep = end > start
    start, end = start[keep], end[keep]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    fresh = np.concatenate(([True], start[1:] > reach[:-1]))
    return start[fresh], reach[np.concatenate((fresh[1:], [True]))]


def total(intervals: Intervals) -> float:
    return float((intervals[1] - intervals[0]).sum())


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """Moments in both; each argument disjoint and in order."""
    if not len(a[0]) or not len(b[0]):
        return EMPTY
    low = np.searchsorted(b[1], a[0], side="right")
    high = np.searchsorted(b[0], a[1], side="left")
    count = np.maximum(high - low, 0)
    mine = np.repeat(np.arange(len(a[0])), count)
    theirs = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return np.maximum(a[0][mine], b[0][theirs]), np.minimum(a[1][mine], b[1][theirs])


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """Moments of ``a`` that are not in ``b``; each disjoint and in order."""
    if not len(a[0]) or not len(b[0]):
        return a
    gaps = (np.concatenate(([-np.inf], b[1])), np.concatenate((b[0], [np.inf])))
    start, end = intersect(a, gaps)
    keep = end > start
    return start[keep], end[keep]


def covered(intervals: Intervals, start: Floats, end: Floats) -> Floats:
    """For each ``[start, end)``, how much of it the disjoint ``intervals`` cover."""
    if not len(intervals[0]):
        return np.zeros(len(start))
    sums = np.concatenate(([0.0], np.cumsum(intervals[1] - intervals[0])))

    def until(at: Floats) -> Floats:
        """Covered time from the beginning to ``at``."""
        i = np.searchsorted(intervals[0], at, side="right")
        full = sums[i]
        last = np.maximum(i - 1, 0)
        over = np.where(i > 0, np.maximum(intervals[1][last] - at, 0.0), 0.0)
        return np.asarray(full - over)

    return until(end) - until(start)


def overlap(start: Floats, end: Floats, low: Floats, high: Floats) -> Floats:
    """For each ``[low, high)``, the time of all spans in it together; of several over one another, each counts."""
    if not len(start):
        return np.zeros(len(low))
    origin = start.min()  # sums of small numbers keep their digits

    def since(edges: Floats, at: Floats) -> Floats:
        """Summed time from each edge before ``at`` to ``at``."""
        edges = np.sort(edges) - origin
        sums = np.concatenate(([0.0], np.cumsum(edges)))
        count = np.searchsorted(edges, at - origin)
        return np.asarray(count * (at - origin) - sums[count])

    return (since(start, high) - since(end, high)) - (since(start, low) - since(end, low))


def parents(start: Floats, end: Floats) -> NDArray[np.int64]:
    """The innermost enclosing span of each, -1 where there is none; sorted by start, longest first, properly nested."""
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
