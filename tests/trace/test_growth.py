"""The slope of memory over steps, on series whose slope is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.columns.arrays import Floats
from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.columns.steps import Steps
from slowtrain.model import Place
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, memory_growth

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

STEPS, STEP_MS, SAMPLES = 2000, 10.0, 240
MB = 1e6
PER_STEP = 50_000.0  # 100 MB over the run
Draw = Callable[[np.random.Generator, Floats], Any]


def _trace(events: tuple[Event, ...] = ()) -> Trace:
    start: Floats = np.arange(STEPS, dtype=np.float64) * STEP_MS
    steady = np.arange(STEPS) >= 2
    no = np.zeros(STEPS, dtype=bool)
    steps = Steps("fit", start, start + STEP_MS, steady, no, no.astype(np.int64), no.astype(np.int64))
    return Trace(steps=steps, events=events)


TRACE = _trace()
AT = np.linspace(1.0, STEPS * STEP_MS - 1.0, SAMPLES)
DONE = np.floor(AT / STEP_MS)


def _autocorrelated(draw: np.random.Generator, sigma: float, memory: float) -> Floats:
    noise = draw.normal(0, sigma, SAMPLES)
    for i in range(1, SAMPLES):
        noise[i] += memory * noise[i - 1]
    return noise


NOISE: dict[str, Draw] = {
    "white": lambda draw, x: draw.normal(0, 4 * MB, SAMPLES),
    "autocorrelated": lambda draw, x: _autocorrelated(draw, 2 * MB, 0.9),
    "random walk": lambda draw, x: np.cumsum(draw.normal(0, 0.5 * MB, SAMPLES)),
    "heavy tails": lambda draw, x: 2 * MB * draw.standard_t(2, SAMPLES),
    "temporary tensors": lambda draw, x: 40 * MB * (draw.random(SAMPLES) < 0.5),
    "validation": lambda draw, x: 60 * MB * ((x % 200) > 180),
}


def _slopes(noise: Draw, per_step: float, count: int) -> list[memory_growth.MemorySlope]:
    draw = np.random.default_rng(7)
    found = [memory_growth.memory_slope(TRACE, AT, 6e8 + per_step * DONE + noise(draw, DONE)) for _ in range(count)]
    return [s for s in found if s is not None]


@pytest.mark.parametrize("noise", NOISE)
def test_the_interval_holds_the_slope_that_is_there(noise: str) -> None:
    found = _slopes(NOISE[noise], PER_STEP, 200)
    assert len(found) == 200
    held = np.mean([s.low <= PER_STEP <= s.high for s in found])
    assert held >= 0.92, held


@pytest.mark.parametrize("noise", NOISE)
def test_noise_alone_does_not_grow(noise: str) -> None:
    """One series in a hundred is wanted at most (clinic/leak_power.py has many); two are allowed for chance."""
    assert np.mean([s.grows for s in _slopes(NOISE[noise], 0.0, 400)]) <= 0.02


@pytest.mark.parametrize("noise", [n for n in NOISE if n != "temporary tensors"])
def test_a_leak_that_is_large_beside_its_noise_is_found(noise: str) -> None:
    assert np.mean([s.grows for s in _slopes(NOISE[noise], 2 * PER_STEP, 100)]) >= 0.99


SHAPES: dict[str, Any] = {
    "a plateau": 200 * MB * (1 - np.exp(-DONE / 300)),
    "a cache that fills for half of the run": 300 * MB * np.minimum(DONE / 1000, 1.0),
    "one jump": 400 * MB * (DONE > 1300),
    "two jumps": 200 * MB * ((DONE > 900) + 1.0 * (DONE > 1500)),
    "a high sawtooth": 300 * MB * ((DONE % 450) / 450),
    "arenas one by one, then no more": 64 * MB * np.minimum(np.floor(DONE / 180), 6),
    "given back": -100 * MB * DONE / STEPS,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_stands_still_in_the_end_does_not_grow(shape: str) -> None:
    found = memory_growth.memory_slope(TRACE, AT, 6e8 + SHAPES[shape])
    assert found is not None
    assert not found.grows


def test_a_leak_in_stairs_grows() -> None:
    """As allocators take memory: a piece at a time."""
    found = memory_growth.memory_slope(TRACE, AT, 6e8 + 8 * MB * np.floor(DONE / 100))
    assert found is not None
    assert found.grows
    assert found.low <= 8 * MB / 100 <= found.high


def test_of_a_leak_as_many_steps_are_cut_out_as_memory() -> None:
    windows = tuple(Event("window", "profile", 1000.0 * at, 1000.0 * at + 50.0) for at in range(6, 19, 3))
    found = memory_growth.memory_slope(_trace(windows), AT, PER_STEP * DONE)
    assert found is not None
    assert found.per_step == pytest.approx(PER_STEP, rel=0.01)


def test_what_a_profiler_window_keeps_is_no_growth() -> None:
    window = Event("window", "profile", 8000.0, 8500.0)
    series = 6e8 + PER_STEP * DONE + 500 * MB * (AT > 8000)
    found = memory_growth.memory_slope(_trace((window,)), AT, series)
    assert found is not None
    assert found.low <= PER_STEP <= found.high
    assert found.per_step == pytest.approx(PER_STEP, rel=0.1)


def test_too_few_samples_say_nothing() -> None:
    assert memory_growth.memory_slope(TRACE, AT[:3], np.full(3, 6e8)) is None
    assert memory_growth.memory_slope(Trace(), AT, np.full(SAMPLES, 6e8)) is None
    assert memory_growth.memory_slope(TRACE, np.zeros(0), np.zeros(0)) is None


def test_calls_of_fit_are_the_unit_where_they_come_again_and_again() -> None:
    loops = tuple(Event("loop", "fit", i * 1000.0, i * 1000.0 + 990.0, {"site": ["train.py", 9]}) for i in range(20))
    unit = memory_growth.growth_unit(_trace(loops))
    assert (unit.name, unit.count) == ("call of fit", 20)
    assert unit.steps == pytest.approx(100, abs=2)
    assert memory_growth.growth_unit(_trace(loops[:3])).name == "thousand steps"


def _held(**detail: object) -> Trace:
    name = Name("held", "train.py||kept", {"path": "kept", "named": "kept", "kind": "list", "element": "X", **detail})
    at = np.arange(100.0, 19_000.0, 500.0)
    zero = np.zeros(len(at), dtype=np.int64)
    return replace(
        TRACE, names=(name,), lanes={"held": Spans(at, at, zero, zero, np.floor(at / STEP_MS).astype(np.int64))}
    )


def test_a_container_is_the_reason_when_it_explains_the_growth() -> None:
    (one,) = growth_suspects.growing_containers(_held(element_bytes=PER_STEP))
    assert one.per_step == pytest.approx(1.0, rel=0.01)
    assert growth_suspects.main_suspects([one], PER_STEP) == [one]
    small = growth_suspects.growing_containers(_held(element_bytes=24))
    assert growth_suspects.main_suspects(small, PER_STEP) == []


def test_a_container_of_unknown_size_is_named_where_nothing_better_is_known() -> None:
    found = growth_suspects.growing_containers(_held(element_bytes=0))
    assert growth_suspects.main_suspects(found, PER_STEP) == found


def test_models_are_the_reason_where_nothing_is_known_to_explain_the_growth() -> None:
    """Their weights are little of it, and their graphs are not counted."""
    (strange,) = growth_suspects.growing_containers(_held(element_bytes=0, path="strange"))
    (models,) = growth_suspects.growing_containers(_held(element_bytes=0.05 * PER_STEP, at_least=True))
    (arrays,) = growth_suspects.growing_containers(_held(element_bytes=0.05 * PER_STEP))
    assert growth_suspects.main_suspects([arrays, strange, models], PER_STEP) == [models]
    assert growth_suspects.main_suspects([arrays, strange], PER_STEP) == [strange]
    (large,) = growth_suspects.growing_containers(_held(element_bytes=PER_STEP))
    assert growth_suspects.main_suspects([large, models], PER_STEP) == [large]


def test_arrays_that_get_longer() -> None:
    (one,) = growth_suspects.growing_arrays(_held(kind="ndarray", element="", element_bytes=1, array=True))
    assert one.length == 1860
    assert one.bytes_per_step == pytest.approx(1.0, rel=0.01)
    assert (
        one.describe(memory_growth.GrowthUnit("thousand steps", 1000.0))
        == "`kept` (ndarray) has 1.86 kB and grows by 1 B per step"
    )
    assert growth_suspects.growing_arrays(_held(element_bytes=PER_STEP)) == [], "a container is none"


def test_growth_of_a_container_is_told_per_call_where_the_slope_is() -> None:
    (one,) = growth_suspects.growing_containers(_held(element_bytes=2e6, at_least=True))
    per_call = memory_growth.GrowthUnit("call of fit", 50.0, Place("train.py", 9), 20)
    assert one.describe(per_call).endswith("× X of at least 2 MB and grows by 50 per call of fit")
    assert one.describe(memory_growth.GrowthUnit("thousand steps", 1000.0)).endswith("and grows by 1 a step")


def test_a_container_that_stopped_growing_is_no_reason() -> None:
    trace = _held(element_bytes=PER_STEP)
    early = trace.lanes["held"].starting_between(0.0, 9000.0)
    assert growth_suspects.growing_containers(replace(trace, lanes={"held": early})) == []


@pytest.mark.parametrize(
    ("walked_s", "kind", "grows"), [(9.0, "list", True), (19.0, "list", False), (9.0, "graph", False)]
)
def test_what_nobody_looked_at_any_more_has_not_stopped_growing(walked_s: float, kind: str, grows: bool) -> None:
    """Walks had used up their share of the time in the middle of the run; graphs are counted also then."""
    trace = _held(element_bytes=PER_STEP, kind=kind)
    early = {"held": trace.lanes["held"].starting_between(0.0, 9000.0)}
    cut = replace(trace, lanes=early, facts={**trace.facts, "growth": {"walks": 20, "due_s": walked_s}})
    assert bool(growth_suspects.growing_containers(cut)) is grows


def test_a_pause_between_two_looks_is_no_epoch() -> None:
    """Nobody looked for a quarter of the run, and what came after it shows that nothing grew any more."""
    early = _held(element_bytes=PER_STEP).lanes["held"].starting_between(0.0, 15_000.0)
    seen = early.where((early.start_ms < 3000.0) | (early.start_ms > 8000.0))
    assert growth_suspects.growing_containers(replace(TRACE, names=_held().names, lanes={"held": seen})) == []


@pytest.mark.parametrize(
    ("element_bytes", "per_step", "leaks"),
    [(PER_STEP, 0.8 * PER_STEP, True), (PER_STEP, 0.2 * PER_STEP, False), (100, 100, False)],
)
def test_contents_tell_of_growth_that_swings_hide(element_bytes: float, per_step: float, leaks: bool) -> None:
    """Memory has to have followed, by half at least, and little that is kept is none."""
    hidden = memory_growth.MemorySlope(per_step, -per_step, 3 * per_step, 1500 * per_step, 1500)
    found = growth_suspects.content_slope(
        hidden, growth_suspects.growing_containers(_held(element_bytes=element_bytes))
    )
    assert (found is not None) is leaks
    if found is not None:
        assert found.grows
        assert found.per_step == pytest.approx(PER_STEP, rel=0.01)
        assert found.describe(memory_growth.GrowthUnit("thousand steps", 1000.0)).endswith("50 MB per thousand steps")


@pytest.mark.parametrize(("high", "leaks"), [(1.5, True), (0.9, False)])
def test_memory_may_have_followed_where_its_interval_holds_what_is_kept(high: float, leaks: bool) -> None:
    unsure = memory_growth.MemorySlope(0.4 * PER_STEP, -PER_STEP, high * PER_STEP, 600 * PER_STEP, 1500)
    assert (
        growth_suspects.content_slope(unsure, growth_suspects.growing_containers(_held(element_bytes=PER_STEP)))
        is not None
    ) is leaks


@pytest.mark.parametrize(("element_bytes", "leaks"), [(2e6, False), (5e6, True)])
def test_a_few_models_tell_of_growth_where_they_are_large(element_bytes: float, leaks: bool) -> None:
    (one,) = growth_suspects.growing_containers(_held(element_bytes=element_bytes, at_least=True))
    few = replace(one, length=9, per_step=9 / 1500)
    hidden = memory_growth.MemorySlope(
        few.bytes_per_step, -1.0, 3 * few.bytes_per_step, 1500 * few.bytes_per_step, 1500
    )
    assert (growth_suspects.content_slope(hidden, [few]) is not None) is leaks


def test_a_limit_is_no_leak() -> None:
    assert growth_suspects.growing_containers(_held(element_bytes=PER_STEP, limit=5000)) == []


def test_buffered_bytes_below_zero_are_none() -> None:
    trace = parse_drawing("step 11\n@pipeline Slices > Shuffle buffered_bytes=18446744073709500000 line=2 > Batch")
    assert memory_growth.pipeline_buffer_bytes(trace) == 0
