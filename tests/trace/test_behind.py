"""Steps of a device that its host runs ahead of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.columns.device import Kernels
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.model import Category
from slowtrain.recording.reader import Recording
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division import async_steps, attribution, recording_steps

STEP, CALL, NEXT, SYNC = 1, 2, 3, 4
NAMES = (
    Name("", "?"),
    Name("step", "train"),
    Name("function", "train_step", {"number": "jit train_step"}),
    Name("next", "next"),
    Name("sync", "device"),
)


def spans(name: int, rows: list[tuple[float, float]]) -> Spans:
    start, end = np.array(rows, dtype=float).reshape(-1, 2).T
    ones = np.ones(len(start), dtype=np.int64)
    return Spans(start, end, name * ones, ones, ones)


def recorded(
    turn_ms: float, done_ms: float, count: int = 20, epochs: int = 2, waits: float | None = None, fed_ms: float = 0.5
) -> Recording:
    """Epochs of ``count`` turns of the host; the device is done ``done_ms`` after the epoch's start."""
    rows: dict[int, list[tuple[float, float]]] = {STEP: [], CALL: [], NEXT: [], SYNC: []}
    events: list[Event] = []
    length = max(done_ms, count * turn_ms) + 5.0
    for epoch in range(epochs):
        begun = 10.0 + epoch * length
        events.append(Event("epoch", "begin", begun - 1, begun - 1, {"epoch": epoch}))
        for i in range(count):
            at = begun + i * turn_ms
            rows[NEXT].append((at, at + fed_ms))
            rows[CALL].append((at + fed_ms, at + 0.9 * turn_ms))
            rows[STEP].append((at, at + 0.9 * turn_ms))
        asked = begun + count * turn_ms
        rows[SYNC].append((asked if waits is None else begun + done_ms - waits, max(begun + done_ms, asked)))
        events.append(Event("epoch", "end", begun + length - 2, begun + length - 2, {"epoch": epoch}))
    end_ms = 10.0 + epochs * length
    fit: dict[str, Any] = {"site": ["train.py", 5], "nested": 0}
    events.append(Event("loop", "fit", 5.0, end_ms, fit))
    lanes = {NAMES[name].lane: spans(name, found) for name, found in rows.items()}
    facts = {"keras": {"backend": "jax"}}
    return Recording(Path("nowhere"), NAMES, lanes, 1, tuple(events), facts, end_ms=end_ms)


def test_each_of_a_slow_devices_steps_takes_as_long_as_lets_the_last_end_when_it_did() -> None:
    raw = recorded(turn_ms=1.0, done_ms=200.9)  # the first is started after 0.9 ms
    found = async_steps.find_async_steps(raw, recording_steps.find_steps(raw))
    assert found.has_device_time
    assert np.median(found.steps.steady_ms) == pytest.approx(10.0)
    assert found.device_ms == pytest.approx(10.0)
    assert found.steps.ms[20] == pytest.approx(10.9), "an epoch's first begins with its start"
    first = found.steps.block == 0
    assert found.steps.end_ms[first][-1] == pytest.approx(10.0 + 200.9)
    assert found.steps.start_ms[first][1:] == pytest.approx(found.steps.end_ms[first][:-1]), "one after the other"


def test_what_the_host_does_meanwhile_costs_nothing() -> None:
    trace = recording_trace.build_recording_trace(recorded(turn_ms=1.0, done_ms=200.9))
    assert trace.mean(Category.DEVICE) == pytest.approx(10.0)
    assert trace.step_ms == pytest.approx(10.0 + 0.9 / 36), "of 36 steady ones one begins an epoch"
    assert sum(map(trace.mean, trace.categories)) == pytest.approx(trace.step_ms)
    assert trace.fact("notes") == [async_steps.ASYNC_NOTE]


def test_a_device_that_keeps_up_leaves_the_hosts_steps_as_they_are() -> None:
    raw = recorded(turn_ms=10.0, done_ms=204.0)  # its last step's own 5 ms
    found = async_steps.find_async_steps(raw, recording_steps.find_steps(raw))
    assert not found.has_device_time
    assert np.array_equal(found.steps.start_ms, recording_steps.find_steps(raw).start_ms)
    assert trace_notes(raw) == ()


def test_a_wait_that_was_none_tells_nothing_of_the_device() -> None:
    """What the host does at an epoch's end may take longer than a step; the device was done before."""
    raw = recorded(turn_ms=1.0, done_ms=30.0, waits=0.001)
    assert not async_steps.find_async_steps(raw, recording_steps.find_steps(raw)).has_device_time


def test_a_hiccup_at_the_end_of_an_epoch_is_no_queue() -> None:
    raw = recorded(turn_ms=1.0, done_ms=202.5, count=200)
    assert not async_steps.find_async_steps(raw, recording_steps.find_steps(raw)).has_device_time


def test_a_host_that_waits_for_room_in_the_queue_takes_as_long_as_the_device() -> None:
    raw = recorded(turn_ms=1.0, done_ms=232.0, count=200)
    found = async_steps.find_async_steps(raw, recording_steps.find_steps(raw))
    assert found.has_device_time
    assert found.steps.steady_ms == pytest.approx(np.full(398, 1.1555), abs=0.91)
    assert np.median(found.steps.steady_ms) == pytest.approx(1.1555)


def test_a_device_that_had_nothing_to_do_for_a_while_is_not_slower_for_it() -> None:
    started = np.array([0.0, 1.0, 2.0, 103.0, 104.0])
    assert async_steps.device_step_ms(started, 123.0) == pytest.approx(20.0 / 2, rel=0.4)
    assert async_steps.device_step_ms(np.arange(10.0), 100.0) == pytest.approx(10.0)


def test_what_the_host_does_while_an_accelerator_works_costs_nothing() -> None:
    raw = recorded(turn_ms=10.0, done_ms=204.0, fed_ms=2.0)
    late = async_steps.find_async_steps(raw, recording_steps.find_steps(raw))
    found = late.steps
    columns = attribution.divide_host_steps(raw, found, attribution.InsideCalls(0.0, None, False))
    assert found.mean_of(columns[Category.INPUT]) == pytest.approx(2.0)
    keeps_up, all_along = late.limit_host_time(columns, 1.0), late.limit_host_time(columns, 9.9)
    for divided in (keeps_up, all_along):
        assert sum(map(found.mean_of, divided.values())) == pytest.approx(found.mean_ms)
    assert found.mean_of(keeps_up[Category.DEVICE]) == pytest.approx(1.0)
    assert found.mean_of(keeps_up[Category.INPUT]) == pytest.approx(1.8, abs=0.01), "of what is left its share"
    assert found.mean_of(all_along[Category.DEVICE]) == pytest.approx(9.9, abs=0.1)
    assert found.mean_of(all_along[Category.INPUT]) < 0.05
    assert late.limit_host_time(columns, None) == columns


def by_hand(lane: str, every: int, wait_ms: float, count: int = 40, turn_ms: float = 1.0) -> Recording:
    """A loop of the user's own that calls a compiled function and waits after ``every`` steps."""
    texts = {"function": "step", "readback": "value", "sync": "block_until_ready"}
    names = tuple(
        Name(on, text, {"site": ["train.py", 5 + i], "number": i}) for i, (on, text) in enumerate(texts.items())
    )
    calls, waits, at = [], [], 10.0
    for i in range(count):
        calls.append((at, at + 0.5 * turn_ms))
        at += turn_ms
        if i % every == every - 1:
            waits.append((at - 0.1, at - 0.1 + wait_ms))
            at += wait_ms
    trained = Event("trace", "step", 10.0, 10.4, {"training": True, "number": 0})
    lanes = {"function": spans(0, calls), lane: spans([*texts].index(lane), waits)}
    return Recording(Path("nowhere"), names, lanes, 1, (trained,), {"jax": True}, end_ms=at + 5.0)


@pytest.mark.parametrize("lane", ["sync", "readback"])
def test_a_loop_by_hand_that_waits_at_last_has_steps_of_its_device(lane: str) -> None:
    raw = by_hand(lane, every=40, wait_ms=360.0)
    found = async_steps.find_async_steps(raw, recording_steps.find_steps(raw))
    assert found.has_device_time
    assert np.median(found.steps.steady_ms) == pytest.approx(10.0, rel=0.02)
    assert recording_trace.build_recording_trace(raw).mean(Category.DEVICE) > 9.0


def test_a_loop_by_hand_that_waits_in_every_step_keeps_its_own() -> None:
    raw = by_hand("readback", every=1, wait_ms=9.0)
    found = recording_steps.find_steps(raw)
    assert not async_steps.find_async_steps(raw, found).has_device_time
    assert np.median(found.steady_ms) == pytest.approx(10.0)


def test_what_tensorflow_reads_says_nothing_of_a_queue() -> None:
    raw = replace(by_hand("readback", every=40, wait_ms=360.0), facts={})
    assert not async_steps.find_async_steps(raw, recording_steps.find_steps(raw)).has_device_time


def test_a_wait_for_the_device_is_no_python_of_the_users() -> None:
    trace = recording_trace.build_recording_trace(by_hand("sync", every=1, wait_ms=9.0))
    assert trace.mean(Category.UNATTRIBUTED) == pytest.approx(9.5, abs=0.3), "the call and the wait, without a window"
    assert trace.mean(Category.PYTHON) == pytest.approx(0.5, abs=0.1)


def trace_notes(raw: Recording) -> Any:
    return recording_trace.build_recording_trace(raw).fact("notes", default=())


def test_a_processor_computes_while_numpy_waits_for_it_in_a_loop_by_hand() -> None:
    raw = by_hand("sync", every=1, wait_ms=9.0)
    ran = Kernels(4, 20.0, 16.0, 16.0, 5.0, 0.0)
    found = recording_steps.find_steps(raw)
    assert async_steps.window_busy_ms(raw, found, ran) == pytest.approx(16.0 * found.mean_ms / 20.0)
    assert async_steps.window_busy_ms(raw, found, None) is None
    assert async_steps.window_busy_ms(replace(raw, facts={}), found, ran) is None
    assert async_steps.window_busy_ms(raw, replace(found, source="fit"), ran) is None, "Keras waits where it is seen"
