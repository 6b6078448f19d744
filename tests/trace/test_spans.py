"""Spans of one lane, asked for by time, by what holds them and by line: all at once, as one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.columns.steps import Steps
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.host_work import is_in_callback
from slowtrain.trace.signals.step_trend import _group_medians

moments = st.lists(st.integers(0, 50).map(float), max_size=20).map(sorted)


@given(moments, st.integers(0, 50), st.integers(0, 50))
def test_between_are_those_that_start_in_the_stretch(starts: list[float], begin: int, end: int) -> None:
    zero = np.zeros(len(starts), dtype=np.int64)
    spans = Spans(np.array(starts), np.array(starts) + 1.0, zero, zero, zero)
    assert spans.starting_between(begin, end).start_ms.tolist() == [s for s in starts if begin <= s < end]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20), st.integers(0, 60), st.integers(0, 9))
def test_what_a_hook_of_a_callback_holds(hooks: list[tuple[int, int]], start: int, ms: int) -> None:
    hooks.sort()
    begin, end = np.array([float(a) for a, _ in hooks]), np.array([float(a + b) for a, b in hooks])
    zero = np.zeros(len(hooks), dtype=np.int64)
    trace = Trace(lanes={"callback": Spans(begin, end, zero, zero, zero)})
    event = Event("loop", "evaluate", float(start), float(start + ms))
    assert is_in_callback(trace, event) == any(a <= start and a + b >= start + ms for a, b in hooks)


@given(st.lists(st.integers(0, 3), max_size=30), st.sets(st.integers(1, 4)))
def test_spans_of_wanted_lines_in_a_step(names: list[int], lines: set[int]) -> None:
    """Of four names two are of one line, and one of none."""
    sites = (["a.py", 1], ["a.py", 2], ["a.py", 1], None)
    start, number = np.arange(len(names)).astype(float), np.array(names, dtype=np.int64)
    trace = Trace(
        steps=Steps("step", np.array([0.0]), np.array([100.0]), np.array([True]), np.array([False])),
        names=tuple(Name("readback", "read", {"site": site}) for site in sites),
        lanes={"readback": Spans(start, start + 0.5, number, number, number)},
    )
    counted = [n for n in names if (site := sites[n]) is not None and site[1] in lines]
    assert host_work.spans_per_step(trace, "readback", [Place("a.py", line) for line in lines]) == len(counted)
    assert host_work.spans_per_step(trace, "readback") == len(names)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), min_size=1, max_size=9))
def test_medians_of_groups(groups: list[list[float]]) -> None:
    of = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    medians = _group_medians(np.concatenate(groups), of, len(groups))
    assert medians.tolist() == [float(np.median(g)) for g in groups]
