"""The recorder in this process: what goes wrong in it is noted, and stays in it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture.core import patching
from slowtrain.capture.core.recorder import MAX_FAULTS, MAX_FAULTS_OF_PART, TICK_PACES, Recorder, _pace_at_tick, now
from slowtrain.recording import reader
from slowtrain.trace.signals.host.host_work import MAX_SAMPLE_GAP_MS


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path)
    made.start()
    yield made
    made.stop()


def read(recorder: Recorder) -> reader.Recording:
    recorder.stop()
    return reader.read_recording(recorder.folder)


def test_spans_events_facts_and_samples_come_back(recorder: Recorder) -> None:
    name = recorder.name("step", "train", site=("a.py", 3))
    assert recorder.name("step", "train") == name
    for i in range(1000):
        recorder.span(name, i * 10, i * 10 + 5, i)
    recorder.event("window", "profile", 5, 9, steps=4)
    recorder.fact("keras", {"backend": "tensorflow"})
    recorder.sample({"rss_bytes": 7.0})
    raw = read(recorder)
    assert len(raw.lanes["step"]) == 1000
    assert raw.names[name].place is not None
    assert [(e.name, dict(e.data)) for e in raw.events] == [("profile", {"steps": 4})]
    assert raw.facts["keras"] == {"backend": "tensorflow"}
    assert dict(raw.samples[0][1]) == {"rss_bytes": 7.0}


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def circle() -> dict[str, Any]:
    one: dict[str, Any] = {"a": 1}
    one["me"] = one
    return one


@pytest.mark.parametrize(
    "data",
    [{"x": Rude()}, {"x": {(1, 2): 3}}, {"x": circle()}, {"x": "\ud800 \x00"}, {"x": 1 << 80}, {"x": {1, 2}}],
    ids=["repr", "keys", "circle", "surrogate", "big", "set"],
)
def test_whatever_an_event_holds_is_written(data: dict[str, Any], recorder: Recorder) -> None:
    recorder.event("loop", "a \ud800 name\x00", 1, **data)
    recorder.event("loop", "after", 2, y=1)
    recorder.name("lane", "\udfff" * 5000)
    raw = read(recorder)
    assert [e.name for e in raw.events][1:] == ["after"]
    assert "faults" not in raw.facts


@pytest.mark.parametrize(("bad", "says"), [((1, 1, 2, 3, None), "5 integers"), ((1, 1, 2), "5 integers")])
def test_half_a_span_costs_one_batch(bad: Any, says: str, recorder: Recorder) -> None:
    name = recorder.name("step", "train")
    recorder.emit(bad)
    recorder._flush()
    recorder.span(name, 5, 6)
    raw = read(recorder)
    assert len(raw.lanes["step"]) == 1
    assert says in raw.facts["faults"][0]


def test_a_fault_is_noted_and_its_part_switched_off(recorder: Recorder) -> None:
    calls = []

    def part() -> None:
        calls.append(1)
        raise ValueError("bad")

    for _ in range(1000):
        assert recorder.guard("a part", part) is None
    assert recorder.guard("another", int, "3") == 3
    assert len(calls) == MAX_FAULTS_OF_PART
    raw = read(recorder)
    assert len(raw.facts["faults"]) == MAX_FAULTS_OF_PART
    assert raw.facts["faults"][0].startswith("a part: Traceback")


def test_faults_do_not_fill_the_disk(recorder: Recorder) -> None:
    for i in range(300):
        recorder.guard(f"part {i}", int, "x")
    assert len(read(recorder).facts["faults"]) == MAX_FAULTS


def test_a_pulse_that_fails_is_dropped(recorder: Recorder) -> None:
    calls = []

    def pulse() -> None:
        calls.append(1)
        raise ZeroDivisionError

    recorder.every(0.02, pulse)
    time.sleep(0.2)
    raw = read(recorder)
    assert len(calls) == 1
    assert "ZeroDivisionError" in raw.facts["faults"][0]


@pytest.mark.parametrize("error", [sqlite3.OperationalError("database or disk is full"), OSError(28, "No space left")])
def test_a_full_disk_ends_it(error: Exception, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder.span(recorder.name("step", "train"), 1, 2)
    recorder._flush()

    def full(*_: object) -> None:
        raise error

    ended = []
    recorder.at_end.append(lambda: ended.append(1))
    monkeypatch.setattr(recorder._store, "commit", full)
    recorder.span(1, 3, 4)
    recorder._flush()
    assert not recorder.active
    assert ended == [1]
    for _ in range(100):  # nothing piles up
        recorder.span(1, 5, 6)
        recorder.event("a", "b", 1)
        recorder.sample({})
    assert (len(recorder.rows), recorder._events, recorder._samples) == (0, [], [])
    raw = reader.read_recording(recorder.folder)
    assert len(raw.lanes["step"]) == 1
    assert str(error) in raw.facts["ended"]


def test_a_fault_of_ours_in_writing_costs_one_batch(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    store = recorder._store
    assert store is not None

    def wrong(*_: object) -> None:
        raise sqlite3.ProgrammingError("wrong number of bindings")

    with monkeypatch.context() as patch:
        patch.setattr(store, "events", wrong)
        recorder.event("loop", "lost", 1)
        recorder._flush()
    recorder.event("loop", "kept", 2)
    raw = read(recorder)
    assert [e.name for e in raw.events] == ["kept"]
    assert "writing" in raw.facts["faults"][0]


def test_numbers_of_names_are_unique(recorder: Recorder) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda i: recorder.name("lane", str(i)), range(4000)))
    assert len(set(numbers)) == 4000


def test_patches_are_undone() -> None:
    class Owner:
        def method(self) -> int:
            return 1

        @staticmethod
        def static() -> int:
            return 2

    before = dict(vars(Owner))
    patching.replace_function(Owner, "method", lambda original: lambda self: original(self) + 10)
    patching.replace_function(Owner, "static", lambda original: lambda: original() + 10)
    assert (Owner().method(), Owner.static(), Owner().static()) == (11, 12, 12)
    assert Owner.method.__name__ == "method"
    with pytest.raises(AttributeError):
        patching.replace_function(Owner, "gone", lambda original: original)
    patching.restore_originals()
    assert {k: vars(Owner)[k] for k in ("method", "static")} == {k: before[k] for k in ("method", "static")}


@pytest.mark.bench
def test_a_wrapper_is_quick(recorder: Recorder) -> None:
    """Far above what it takes (0.4 µs), far below what would hurt: a step has a handful of spans."""
    name = recorder.name("step", "train")
    best = min(_each(lambda: recorder.guard("x", recorder.span, name, now(), now())) for _ in range(5))
    assert best < 10e-6


def _each(call: Any, times: int = 5000) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begun) / times


def test_every_pace_loses_less_than_a_second_and_leaves_no_gap_between_stacks() -> None:
    assert [_pace_at_tick(ticks)[0] for ticks in (0, 399, 400, 799, 800, 10**9)] == sorted(
        seconds for _, seconds, *_ in TICK_PACES for _ in range(2)
    )
    for _, seconds, writing, _ in TICK_PACES:
        assert seconds * writing < 0.9
        assert 1e3 * seconds < 0.7 * MAX_SAMPLE_GAP_MS


def test_whether_training_has_begun_is_asked_before_each_wait(recorder: Recorder) -> None:
    """Its thread runs before the script's steps are counted, and who counts them is known."""
    asked: list[bool] = []

    def trains() -> bool:
        asked.append(True)
        return True

    recorder.trains = trains
    end = time.monotonic() + 10
    while len(asked) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(asked) >= 2
