"""Sets of intervals against slow, obvious versions of the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.columns import intervals

pytestmark = pytest.mark.fuzz

SIZE = 40
pairs = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=30)


def made(found: list[tuple[int, int]]) -> intervals.Intervals:
    return intervals.union(np.array([a for a, _ in found], dtype=float), np.array([b for _, b in found], dtype=float))


def moments(found: list[tuple[int, int]]) -> set[int]:
    """The unit moments that are covered, one by one."""
    return {at for a, b in found for at in range(a, b)}


def drawn(given_: intervals.Intervals) -> set[int]:
    """The same of the result, which must be disjoint, in order and without empty parts."""
    start, end = given_
    assert (end > start).all()
    assert (start[1:] >= end[:-1]).all()
    return {at for a, b in zip(start, end, strict=True) for at in range(int(a), int(b))}


@given(pairs)
def test_union(a: list[tuple[int, int]]) -> None:
    found = made(a)
    assert drawn(found) == moments(a)
    assert intervals.total_length(found) == len(moments(a))
    assert (found[0][1:] > found[1][:-1]).all(), "neighbours that touch are one"


@given(pairs, pairs)
def test_intersect_and_subtract(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    both, rest = intervals.intersect(made(a), made(b)), intervals.subtract(made(a), made(b))
    assert drawn(both) == moments(a) & moments(b)
    assert drawn(rest) == moments(a) - moments(b)
    assert intervals.total_length(both) + intervals.total_length(rest) == intervals.total_length(made(a))


@given(pairs, pairs)
def test_covered(a: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    windows = [(min(w), max(w)) for w in windows]
    start, end = np.array([w[0] for w in windows], dtype=float), np.array([w[1] for w in windows], dtype=float)
    assert intervals.covered_length(made(a), start, end).tolist() == [len(moments(a) & set(range(*w))) for w in windows]


@given(pairs, pairs)
def test_overlap(a: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    spans, windows = ([(min(p), max(p)) for p in found] for found in (a, windows))
    start, end, low, high = (np.array([p[i] for p in found], dtype=float) for found in (spans, windows) for i in (0, 1))
    slow = [sum(len(set(range(*span)) & set(range(*window))) for span in spans) for window in windows]
    assert np.allclose(intervals.overlap_per_range(start, end, low, high), slow)


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Properly nested spans, as calls in one thread are: siblings may touch, a child may fill its parent."""
    spans: list[tuple[float, float]] = []

    def fill(start: float, end: float, depth: int) -> None:
        at = start
        for _ in range(draw(st.integers(0, 3))):
            begin = at + draw(st.integers(0, 2))
            stop = begin + draw(st.integers(1, 12))
            if stop > end:
                return
            spans.append((begin, stop))
            if depth:
                fill(begin, stop, depth - 1)
            at = stop

    fill(0, 60, 4)
    return sorted(spans, key=lambda s: (s[0], -s[1]))


@given(nested())
def test_parents(spans: list[tuple[float, float]]) -> None:
    found = intervals.enclosing_spans(np.array([s[0] for s in spans]), np.array([s[1] for s in spans]))
    for i, (start, end) in enumerate(spans):
        around = [j for j in range(i) if spans[j][0] <= start and end <= spans[j][1]]
        assert found[i] == (around[-1] if around else -1)
