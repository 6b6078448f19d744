"""What a turn of a loop by hand is, where it calls Keras' own loops; whose traces JAX's are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slowtrain.columns.spans import Event
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Category
from slowtrain.recording.store import Store
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division.recording_steps import ELEMENTS_SOURCE
from slowtrain.trace.signals.host.retraces import first_traces_by_definition, traces_by_function
from slowtrain.trace.signals.host.source_lines import source_tree

MS = 10**6
TURNS = 40


def loop_by_hand(folder: Path, predicted: int, turns: int = TURNS, at_first_ms: int = 4) -> Trace:
    """A ``train_on_batch`` of 3 ms every 8; before each of the last ``predicted`` a ``predict`` of 4 ms.

    In the first two turns it takes ``at_first_ms``.
    """
    store = Store(folder)
    store.begin()
    store.names([(1, "on_batch", "train", {"site": ["t.py", 9]})])
    spans, events = [], []
    for turn in range(turns):
        begun = 10**9 + turn * 8 * MS
        spans.append((1, begun, begun + 3 * MS, 77, 32))
        if turn > turns - 1 - predicted:
            at = begun - 5 * MS
            took = (at_first_ms if turn < 2 else 4) * MS
            events.append((at, at + took, "loop", "predict", {"nested": 0, "site": ["t.py", 8], "model": 1}))
    store.spans(np.array(spans, dtype="<i8").tobytes())
    store.events(events)
    store.fact("child", {"pid": 1, "begun_ns": 5 * 10**8})
    store.commit()
    store.close()
    (folder / "launch.json").write_text(json.dumps({"start_ns": 4 * 10**8, "end_ns": 2 * 10**9, "cwd": "/x"}))
    return recording_trace.load_recording(folder)


def test_a_predict_in_every_turn_is_part_of_the_turn(tmp_path: Path) -> None:
    trace = loop_by_hand(tmp_path, TURNS - 1)
    assert trace.steps.source == "train_on_batch"
    assert trace.step_ms == pytest.approx(8), "the last turn, of which only the call is there, is none"
    found = {d.cause: d for d in diagnose_trace(trace).diagnoses}["host/predict-in-loop"]
    assert found.saving.scope == "step"
    assert [p.line for p in found.evidence.where] == [8]


def test_calls_outside_the_steady_steps_say_nothing_of_those_within(tmp_path: Path) -> None:
    saved = []
    for at_first_ms in (4, 5):
        folder = tmp_path / str(at_first_ms)
        folder.mkdir()
        found = diagnose_trace(loop_by_hand(folder, 11, turns=12, at_first_ms=at_first_ms)).diagnoses
        saved.append(next(d.saving.ms for d in found if d.cause == "host/predict-in-loop"))
    assert saved[0] == pytest.approx(saved[1])


def test_a_predict_now_and_then_ends_a_stretch_of_steps(tmp_path: Path) -> None:
    trace = loop_by_hand(tmp_path, 3)
    assert trace.steps.block.max() == 3
    assert trace.steps.ms[-2:] == pytest.approx([3, 3])


def iterated(folder: Path, trained: int = 0, epochs: int = 2) -> Trace:
    """Each epoch goes through 20 elements of a data set, 5 ms each, with 1 ms of Python behind each; some train."""
    store = Store(folder)
    store.begin()
    store.names([(1, "next", "next", {"site": ["t.py", 7]}), (2, "on_batch", "train", {"site": ["t.py", 9]})])
    spans, events, at = [], [], 10**9
    for epoch in range(epochs):
        made = {"number": epoch + 1, "pipeline": 1, "keras": False, "site": ["t.py", 7]}
        events.append((at - MS, at - MS, "iterator", "made", made))
        for _ in range(20):
            spans.append((1, at, at + 5 * MS, 77, epoch + 1))
            at += 6 * MS
        at += 30 * MS
    spans += [(2, at + i * MS, at + i * MS + MS // 2, 77, 32) for i in range(trained)]
    store.spans(np.array(spans, dtype="<i8").tobytes())
    store.events(events)
    store.fact("child", {"pid": 1, "begun_ns": 5 * 10**8})
    store.commit()
    store.close()
    (folder / "launch.json").write_text(json.dumps({"start_ns": 4 * 10**8, "end_ns": 2 * 10**9, "cwd": "/x"}))
    return recording_trace.load_recording(folder)


def test_elements_are_the_steps_of_a_script_that_only_goes_through_a_data_set(tmp_path: Path) -> None:
    trace = iterated(tmp_path)
    assert trace.steps.source == ELEMENTS_SOURCE
    assert not trace.steps.training
    assert trace.step_ms == pytest.approx(6)
    assert trace.share(Category.INPUT) == pytest.approx(5 / 6)
    assert trace.steps.block.max() == 1, "an iterator that is made begins an epoch"
    assert trace.steps.place is not None
    assert trace.steps.place.line == 7


@pytest.mark.parametrize("trained", [2, 5])
def test_elements_are_no_steps_where_anything_trains(tmp_path: Path, trained: int) -> None:
    trace = iterated(tmp_path, trained)
    assert trace.steps.source == ("train_on_batch" if trained == 5 else "")


def fits(models: list[int], compiled: list[bool]) -> Trace:
    """A fit each, in which JAX compiles Keras' function; before some of them `compile` was called."""
    events = []
    for turn, model in enumerate(models):
        at = turn * 1000.0
        if compiled[turn]:
            events.append(Event("compile", "Functional", at, at + 1))
        data = {"number": "jit train_step", "nth": turn + 1, "training": True, "keras": True, "jit": True}
        events.append(Event("loop", "fit", at + 2, at + 900, {"model": model, "nested": 0}))
        events.append(Event("trace", "train_step", at + 10, at + 400, data))
    return Trace(events=tuple(events))


@pytest.mark.parametrize(
    ("models", "compiled"),
    [([1, 2, 3, 4], [True] * 4), ([1, 1, 1, 1], [True] * 4), ([1, 2, 3, 4], [False] * 4)],
    ids=["new models", "one model, compiled again", "other models"],
)
def test_what_compile_made_anew_is_another_function(models: list[int], compiled: list[bool]) -> None:
    trace = fits(models, compiled)
    assert [len(one.later_traces) for one in traces_by_function(trace)] == [0, 0, 0, 0]
    assert [len(one.events) for one in first_traces_by_definition(trace)] == [4]


def test_one_model_that_was_compiled_once_is_traced_again() -> None:
    trace = fits([1, 1, 1, 1], [True, False, False, False])
    assert [len(one.later_traces) for one in traces_by_function(trace)] == [3]
    assert [len(one.events) for one in first_traces_by_definition(trace)] == [1]


def test_a_recording_that_is_read_elsewhere_has_its_sources() -> None:
    trace = Trace(facts={"sources": {"/gone/t.py": "x = 1"}})
    assert source_tree(trace, "/gone/t.py") is not None
    assert source_tree(trace, "/gone/u.py") is None
