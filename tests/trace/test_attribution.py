"""Every moment belongs to one phase and to one category, whatever the spans look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.columns.steps import Steps
from slowtrain.model import Category
from slowtrain.profile.summaries import step_division
from slowtrain.recording.reader import Recording
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division import attribution

pytestmark = pytest.mark.fuzz

LENGTH = 80
MAIN = 7
Drawn = tuple[str, int, int]  # lane, from, to


@st.composite
def calls(draw: st.DrawFn) -> list[Drawn]:
    """Spans of one thread as calls make them: properly nested, in any lanes."""
    lanes = st.sampled_from(sorted(attribution.LANE_CATEGORIES))
    spans: list[Drawn] = []

    def fill(start: int, end: int, depth: int) -> None:
        at = start
        for _ in range(draw(st.integers(0, 3))):
            begin = at + draw(st.integers(0, 4))
            stop = begin + draw(st.integers(1, 25))
            if stop > end or (begin, stop) == (
                start,
                end,
            ):  # two of the same extent: which is the outer, no clock tells
                return
            spans.append((draw(lanes), begin, stop))
            if depth:
                fill(begin, stop, depth - 1)
            at = stop

    fill(0, LENGTH, 3)
    return spans


turns = st.lists(st.integers(0, LENGTH), min_size=2, max_size=8, unique=True).map(sorted)
events = st.lists(
    st.tuples(st.sampled_from(["loop", "window", "trace", "epoch"]), st.integers(0, LENGTH), st.integers(0, 30)),
    max_size=6,
)


def recorded(spans: list[Drawn], happened: list[tuple[str, int, int]]) -> Recording:
    lanes = {}
    for lane in {s[0] for s in spans}:
        mine = sorted((s for s in spans if s[0] == lane), key=lambda s: (s[1], -s[2]))
        start, end = (np.array([s[i] for s in mine], dtype=float) for i in (1, 2))
        whole = np.zeros(len(mine), dtype=np.int64)
        lanes[lane] = Spans(start, end, whole, whole + MAIN, whole)
    told = tuple(Event(lane, "fit", float(at), float(at + ms), {"nested": 0}) for lane, at, ms in happened)
    facts = {"child": {"begun_ns": 2_000_000}, "end_ns": (LENGTH - 3) * 1_000_000}
    return Recording(Path("x"), (Name("step", "train"),), lanes, MAIN, told, facts, end_ms=float(LENGTH))


def taken(edges: list[int]) -> Steps:
    start, end = np.array(edges[:-1], dtype=float), np.array(edges[1:], dtype=float)
    many = np.ones(len(start), dtype=bool)
    none = np.zeros(len(start), dtype=np.int64)
    return Steps("fit", start, end, many, ~many, none, none)


def innermost(spans: list[Drawn], steps: Steps) -> dict[str, Floats]:
    """The slow way: who owns each millisecond."""
    owner = ["python"] * LENGTH
    for lane, start, end in spans:  # drawn outer before inner
        owner[start:end] = ["loop" if lane == "readback" else lane] * (end - start)  # no line of a script reads here
    found = {lane: np.zeros(len(steps)) for lane in {*owner, "python"}}
    for i, (start, end) in enumerate(zip(steps.start_ms, steps.end_ms, strict=True)):
        for at in range(int(start), int(end)):
            found[owner[at]][i] += 1
    return found


@given(calls(), turns)
def test_the_innermost_call_owns_the_moment(spans: list[Drawn], edges: list[int]) -> None:
    steps = taken(edges)
    found, slow = attribution.self_time_by_lane(recorded(spans, []), steps), innermost(spans, steps)
    for lane in {*found, *slow}:
        nothing = np.zeros(len(steps))
        assert np.allclose(found.get(lane, nothing), slow.get(lane, nothing)), lane


@given(calls(), turns, st.one_of(st.none(), st.floats(0, 50)), st.booleans())
def test_categories_add_up_to_each_step(spans: list[Drawn], edges: list[int], wait: float | None, eager: bool) -> None:
    steps = taken(edges)
    columns = attribution.divide_host_steps(recorded(spans, []), steps, attribution.InsideCalls(wait, None, eager))
    assert set(columns) <= set(Category)
    assert all((column >= -1e-9).all() for column in columns.values())
    assert np.allclose(np.sum(list(columns.values()), axis=0), steps.ms)


parts = st.dictionaries(
    st.sampled_from([Category.DEVICE, Category.FEED, Category.READBACK, Category.HOST_OP]), st.floats(0, 30), max_size=4
)
waits = st.dictionaries(
    st.sampled_from(sorted({*step_division.CATEGORY_BY_REASON} - {"host-op"})), st.floats(0, 30), max_size=6
)


@given(calls(), turns, parts, parts, waits, st.one_of(st.none(), st.floats(0, 50)), st.booleans())
def test_the_device_keeps_its_milliseconds_and_the_host_has_the_rest(
    spans: list[Drawn],
    edges: list[int],
    in_calls: dict[Category, float],
    in_python: dict[Category, float],
    idle: dict[str, float],
    wait_ms: float | None,
    eager: bool,
) -> None:
    steps, raw = taken(edges), recorded(spans, [])
    window = step_division.WindowDivision(5, 20.0, {None: in_calls, Category.PYTHON: {} if eager else in_python}, idle)
    found = attribution.divide_accelerator_steps(raw, steps, window, wait_ms, eager=eager)
    assert all((column >= -1e-9).all() for column in found.columns.values())
    assert np.allclose(np.sum(list(found.columns.values()), axis=0), steps.ms)
    for category in (Category.DEVICE, Category.FEED, Category.HOST_OP):
        did = in_calls.get(category, 0.0) + (0.0 if eager else in_python.get(category, 0.0))
        # Steps of one window's mean: what one step has no room for another one has.
        assert found.columns[category].mean() <= did + 1e-6, "a mean step has no more of it than the window's"
    host = steps.ms - sum(found.columns[c] for c in (Category.DEVICE, Category.FEED, Category.COLLECTIVE))
    assert sum(found.idle.values()) <= host.mean() + 1e-6, "the device's waits are the step's, not the window's"


@given(calls(), turns, events)
def test_phases_add_up_to_the_run(spans: list[Drawn], edges: list[int], happened: list[tuple[str, int, int]]) -> None:
    run = attribution.run_phases(recorded(spans, happened), taken(edges))
    assert all(part.ms >= 0 for part in run.parts)
    assert sum(part.ms for part in run.parts) == pytest.approx(LENGTH)


@given(calls(), events)
def test_a_whole_trace_adds_up(spans: list[Drawn], happened: list[tuple[str, int, int]]) -> None:
    """Steps found by the reader itself, in recordings that make no sense."""
    trace = recording_trace.build_recording_trace(recorded(spans, happened))
    assert sum(part.ms for part in trace.run.parts) == pytest.approx(trace.run_ms)
    if len(trace.steps):
        assert np.allclose(np.sum(list(trace.categories.values()), axis=0), trace.steps.ms)


def test_a_checkpoint_is_a_phase_wherever_it_is_written() -> None:
    """By a callback at an epoch's end, after training, and inside another call that saves; not within a step."""
    spans = [("step", 5, 10), ("step", 10, 15), ("step", 15, 20), ("save", 17, 19)]
    spans += [("callback", 30, 44), ("save", 32, 40), ("save", 34, 36), ("save", 60, 65)]
    run = attribution.run_phases(recorded(spans, [("loop", 5, 45)]), taken([5, 10, 15, 20]))
    spent = {part.name: part.ms for part in run.parts}
    assert (spent["checkpoint"], spent["callback"]) == (13, 6)
