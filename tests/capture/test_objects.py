"""Objects by type, and the lines that make them: when they are looked at, what is told, and what is left alone."""

from __future__ import annotations

import _tracemalloc as tracer
import gc
import importlib
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.growth import growth_watch, object_growth
from slowtrain.capture.growth.object_growth import MIN_GAINED_BYTES, MemoryGain, ObjectGrowthWatch
from slowtrain.causes.memory.host_leak import HostLeak
from slowtrain.trace.loading import recording_trace

from . import running

S = 1_000_000_000
MB = 1 << 20


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    found = Recorder(tmp_path)
    yield found
    for call in found.at_exit:
        call()
    found.active = False
    assert not tracer.is_tracing(), "it must never be left on"


@pytest.fixture(autouse=True)
def of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script: tests and their tools have imported it."""
    monkeypatch.delitem(sys.modules, "tracemalloc", raising=False)


# -- when


def rates(course: Callable[[float], float], seconds: float = 60.0) -> list[float]:
    """What is said, ten times a second, of memory that takes ``course(s)`` MiB."""
    gaining = MemoryGain()
    return [gaining.rate(int(n * S / 10) + S, int(course(n / 10) * MB)) for n in range(int(10 * seconds))]


def test_memory_that_goes_on_growing_does_so_at_its_rate() -> None:
    found = rates(lambda s: 500 + 40 * s)
    assert not any(found[:30]), "in its first seconds everything grows"
    assert found[-1] == pytest.approx(40 * MB / S, rel=0.05)


@pytest.mark.parametrize(
    "course",
    [
        lambda s: 500 + min(40 * s, 300),  # fills, in eight seconds, and stands still
        lambda s: 500 + 600 * (s > 20),  # a jump
        lambda s: 500 + 300 * (s % 8 > 4),  # up and down
        lambda s: 500 + s,  # less than would be looked at for
    ],
)
def test_memory_that_does_not_go_on_growing_is_left_alone(course: Callable[[float], float]) -> None:
    assert not any(rates(course)[110:])


def test_pythons_own_blocks_have_to_rise_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*parts: tuple[int, int]) -> bool:
        """Of parts of memory's growth, the blocks found in the middle and at the end of each."""
        left = iter([1000, *(blocks for part in parts for blocks in part)])
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: next(left))
        gaining, half = MemoryGain(), MIN_GAINED_BYTES // 8
        return [gaining.of_python(half * n) for n in range(1 + 2 * len(parts))][-1]

    assert asked((1900, 1950), (2400, 1300), (3000, 1600), (1900, 2500))
    assert not asked((1900, 1950), (2400, 1300), (3000, 1600)), "not often enough"
    assert not asked((1900, 1950), (2400, 1300), (3000, 1500), (1900, 2500)), "at their lowest they rose by too little"
    assert not asked((1100, 1100), (1200, 1200), (1300, 1300), (1400, 1400)), "64 MiB are no four hundred objects"


def test_a_healthy_run_is_never_looked_at_and_nobody_waits_for_its_steps(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows by 100 MiB in ten seconds, and then it stands still for three minutes."""
    monkeypatch.setattr(MemoryGain, "of_python", lambda *_: True)
    progress = Progress()
    watch = ObjectGrowthWatch(recorder, progress)
    for n in range(1800):
        progress.steps += 10
        watch.handle_reading(n * S // 10 + S, int((500 + min(n, 100)) * MB), lambda _: True)
        watch.wait(n * S // 10 + S)
        assert progress.boundary is None
    assert recorder._events == []


def test_containers_that_explain_it_are_enough() -> None:
    watch = growth_watch.GrowthWatch(None, Progress())  # type: ignore[arg-type]
    row = growth_watch._ContainerHistory(0, [], 1, since=(0, 0), each=100.0)
    watch._known = {"kept": row}
    watch._suspecting = growth_watch.MIN_GROWN_WALKS + 1
    row.length, row.moved, row.last = 1000, 9 * S, 10 * S
    assert not watch._is_unexplained(15_000 / S)
    assert watch._is_unexplained(25_000 / S)
    row.each = float("inf")
    assert not watch._is_unexplained(25_000 / S), "nobody knows what its elements keep"
    row.moved = 4 * S
    assert watch._is_unexplained(15_000 / S), "it has stopped growing"
    watch._suspecting = growth_watch.MIN_GROWN_WALKS
    assert not watch._is_unexplained(25_000 / S), "not looked for often enough"


# -- what


class Node:
    def __init__(self) -> None:
        self.me = self
        self.filled = [float(n) for n in range(2000)]


MADE = Node.__init__.__code__.co_firstlineno + 2


class Run:
    """Steps in whose course memory grows, as far as a watch is told."""

    def __init__(self, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(MemoryGain, "rate", lambda *_: 1.0)
        monkeypatch.setattr(MemoryGain, "of_python", lambda *_: True)
        self.recorder = recorder
        self.progress = Progress()
        self.watch = ObjectGrowthWatch(recorder, self.progress)
        self.at = 0

    def sampled(self, used: int) -> None:
        self.at += S // 10
        self.watch.handle_reading(self.at, used, lambda _: True)
        self.watch.wait(self.at)

    def steps(self, count: int, each: Callable[[], Any] = lambda: None) -> None:
        for _ in range(count):
            self.progress.step(3)
            each()

    def looked(self, each: Callable[[], Any]) -> None:
        """Up to the second look."""
        self.sampled(0)
        self.steps(50, each)
        self.sampled(2 * MIN_GAINED_BYTES)
        self.steps(1)

    def told(self, name: str) -> list[Any]:
        return [data for _, _, lane, other, data in self.recorder._events if (lane, other) == ("window", name)]


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.mark.usefixtures("uncollected")
def test_what_circles_keep_is_told_by_type_and_line(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(recorder, monkeypatch)
    monkeypatch.setattr(object_growth, "MAX_BYTES_A_BLOCK", 1 << 40)  # a short run is told of more memory than it takes
    run.looked(lambda: (Node(), Node()))
    first, second = run.told("objects")
    assert "types" not in first
    assert (second["steps"], second["collects"]) == (50, False)
    grown = {name: more for name, _, more in second["types"]}
    assert grown[f"{__name__}.Node"] == 100
    assert tracer.is_tracing() is False, "it begins with the next step"
    run.steps(40, lambda: (Node(), Node()))
    assert tracer.is_tracing() is False
    (traced,) = run.told("allocations")
    file, line, users, kept, count = traced["lines"][0]
    assert (file, line, users) == (__file__, MADE, True)
    # A list of 2000 pointers and as many floats, twice in each step.
    assert kept / traced["steps"] == pytest.approx(2 * (2000 * 8 + 2000 * 24), rel=0.05)
    assert count / traced["steps"] == pytest.approx(2 * 2001, rel=0.05)
    assert run.progress.boundary is None
    assert run.watch.over, "once in a run"


def test_no_line_is_asked_of_what_is_not_pythons(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(recorder, monkeypatch)
    run.looked(lambda: None)
    assert len(run.told("objects")) == 2
    run.steps(40)
    assert run.told("allocations") == []
    assert run.watch.over


def begun(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run(recorder, monkeypatch)
    monkeypatch.setattr(object_growth, "MAX_BYTES_A_BLOCK", 1 << 40)
    run.looked(lambda: None)
    run.sampled(2 * MIN_GAINED_BYTES)
    run.watch._due = run.watch._due or run.watch._begin
    run.progress.boundary = run.watch._at_boundary
    run.steps(2)
    return run


def test_a_script_that_uses_tracemalloc_keeps_it(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer.start(3)
    try:
        run = begun(recorder, monkeypatch)
        run.steps(60)
        assert run.told("allocations") == []
        assert tracer.is_tracing()
        assert tracer.get_traceback_limit() == 3
    finally:
        tracer.stop()


def test_a_script_that_has_imported_it_is_left_alone(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("tracemalloc")
    run = begun(recorder, monkeypatch)
    assert not tracer.is_tracing()
    assert run.watch.over


def test_a_script_that_comes_to_use_it_finds_it_off(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(recorder, monkeypatch)
    assert tracer.is_tracing()
    assert importlib.import_module("tracemalloc").is_tracing() is False
    run.steps(60)
    assert [t["steps"] for t in run.told("allocations")] == [0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_is_off_before_a_fork(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(recorder, monkeypatch)
    child = os.fork()
    if not child:
        os._exit(int(tracer.is_tracing()))
    assert os.waitpid(child, 0)[1] == 0
    assert not tracer.is_tracing()


def test_it_is_off_where_no_step_comes_along(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(recorder, monkeypatch)
    run.watch.wait(run.watch._asked_ns + object_growth.MAX_RECORDING_WAIT_NS + 1)
    assert not tracer.is_tracing()
    assert run.progress.boundary is None


@pytest.mark.parametrize("limit", ["MAX_BLOCKS", "MAX_TRACKED_OBJECTS"])
def test_too_many_objects_are_not_gone_through(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(object_growth, limit, 1000)
    run = Run(recorder, monkeypatch)
    run.sampled(0)
    run.steps(1)
    assert run.watch.over
    assert run.progress.boundary is None
    assert run.told("objects") == []


def test_windows_of_the_profilers_go_first(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(recorder, monkeypatch)
    called: list[int] = []
    run.progress.boundary = called.append
    run.sampled(0)
    run.steps(3)
    assert (called, run.told("objects")) == ([1, 2, 3], [])
    run.progress.boundary = None
    run.sampled(0)
    run.steps(1)
    assert len(run.told("objects")) == 1


def test_nothing_of_the_scripts_is_called_or_lives_longer_for_having_been_counted() -> None:
    class Touchy(type):
        def __hash__(cls) -> int:
            raise AssertionError("to hash a class is to call its metaclass")

    class Shy(metaclass=Touchy):
        pass

    one = Shy()
    before = object_growth.count_live_types()
    others = [Shy() for _ in range(30)]
    after = object_growth.count_live_types()
    assert before is not None
    assert after is not None
    assert (after - before)[f"{__name__}.Shy"] == 30
    gone = weakref.ref(one)
    del one, others
    assert gone() is None


LEAKY = """
import gc
import time
import tensorflow as tf

class Node:
    def __init__(self):
        self.me = self
        self.filled = [float(n) for n in range(2000)]

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

w = tf.Variable(tf.random.normal((8, 8)))

def main():
    gc.disable()
    x = tf.random.normal((16, 8))
    begun = time.perf_counter()
    while time.perf_counter() - begun < 11:
        train_step(x)
        for _ in range(4):
            Node()
        time.sleep(0.003)

main()
"""
HEALTHY = LEAKY.replace("            Node()\n", "            kept.append(Node()) if len(kept) < 1500 else None\n")


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("native", ["1", "0"])
def test_a_leak_in_circles_is_named_with_type_and_line(tmp_path: Path, native: str) -> None:
    """Each step keeps four of 64 kB, to which no name leads."""
    script = running.write(tmp_path, LEAKY)
    done = running.recorded(tmp_path / "run", script, env={"SLOWTRAIN_NATIVE": native})
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    finding = HostLeak().find(trace)
    assert finding is not None
    evidence = HostLeak().evidence(trace, finding)
    assert re.search(r"`Node`: [\d,]+ objects, 4 a step more", evidence.says)
    assert evidence.numbers["made_per_step_bytes"] == pytest.approx(4 * 2000 * 32, rel=0.1)
    line = next(n for n, text in enumerate(LEAKY.splitlines(), 1) if "self.filled" in text)
    assert [p.line for p in evidence.where] == [line]
    inside = [e for e in trace.events_of("window") if e.name in ("objects", "allocations")]
    assert [e.name for e in inside] == ["objects", "objects", "allocations"]
    for event in inside:
        touched = (trace.steps.end_ms > event.start_ms) & (trace.steps.start_ms < event.end_ms)
        assert not trace.steps.steady[touched].any()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_run_that_grows_and_then_stands_still_is_not_looked_at(tmp_path: Path) -> None:
    script = running.write(tmp_path, HEALTHY.replace("def main():", "kept = []\n\ndef main():"))
    done = running.recorded(tmp_path / "run", script)
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert len(trace.steps) > 500
    assert {e.name for e in trace.events_of("window")} <= {"profile", "lines"}
