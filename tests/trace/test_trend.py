"""Slopes, jumps and stalls of step times: a small version of clinic/drift_power.py, and what must not be mistaken."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from slowtrain.causes.drift.slower_epochs import SlowerEpochs, largest_jump, part_jump
from slowtrain.columns.steps import Steps
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.signals import step_trend

CLINIC = Path(__file__).parents[2] / "clinic"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    if not CLINIC.is_dir():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("drift_power")
    finally:
        sys.path.remove(str(CLINIC))


def steps(ms: np.ndarray, block: np.ndarray | None = None, size: np.ndarray | None = None) -> Steps:
    n, end = len(ms), np.cumsum(ms)
    none = np.zeros(n, dtype=np.int64)
    return Steps("fit", end - ms, end, np.ones(n, dtype=bool), np.zeros(n, dtype=bool),
                 none if block is None else block, none + 32 if size is None else size)  # fmt: skip


def noisy(n: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).normal(10.0, 0.5, n))


def test_false_alarms_are_rare(bench: ModuleType) -> None:
    """One in a hundred is what is allowed: of forty, two would be chance once in sixteen times."""
    assert sum(bool(one.said) for one in bench.false_alarms(40, seed=11)) <= 1


def test_a_clear_drift_is_found(bench: ModuleType) -> None:
    assert bench.power(0.2, 5000, 5, seed=11) >= 0.8
    assert bench.power(0.0, 5000, 5, seed=11) == 0.0


def test_the_interval_holds_the_slope() -> None:
    found = [
        step_trend.series_growth(step_trend.plain_steps(steps(noisy(2000, s) + 0.002 * np.arange(2000))))
        for s in range(20)
    ]
    assert all(f is not None and f.sure for f in found)
    assert sum(f is not None and f.low_ms <= 0.002 <= f.high_ms for f in found) >= 17


def test_larger_batches_are_no_drift() -> None:
    """A curriculum: the last thousand steps have twice the samples, and take twice the time."""
    late = np.arange(2000) >= 1000
    found = step_trend.series_growth(step_trend.plain_steps(steps(noisy(2000) * (1 + late), size=32 + 32 * late)))
    assert found is not None
    assert not found.sure


def test_an_epochs_own_course_is_no_drift() -> None:
    """Within each epoch steps get slower by half, and the next epoch begins as the first did."""
    place = np.arange(2000) % 500
    found = step_trend.series_growth(
        step_trend.plain_steps(steps(noisy(2000) * (1 + place / 1000), np.arange(2000) // 500))
    )
    assert found is not None
    assert not found.sure


def test_a_jump_is_a_change_and_no_growth() -> None:
    ms = noisy(2000) + 5.0 * (np.arange(2000) >= 1200)
    series = step_trend.plain_steps(steps(ms, np.arange(2000) // 100))
    found = step_trend.series_growth(series)
    assert found is not None
    assert not found.sure
    jump = largest_jump(series)
    assert jump is not None
    assert jump.epoch == 13
    assert jump.after_ms == pytest.approx(15, abs=0.2)


@pytest.mark.parametrize(("first", "second"), [(5.0, 5.0), (3.0, 30.0), (30.0, 9.0)])
def test_two_jumps_are_two_changes_and_no_growth(first: float, second: float) -> None:
    number = np.arange(2400)
    ms = noisy(2400) + first * (number >= 800) + second * (number >= 1600)
    series = step_trend.plain_steps(steps(ms, number // 100))
    found = step_trend.series_growth(series)
    assert found is not None
    assert not found.sure
    jump = largest_jump(series)
    assert jump is not None
    (other,) = jump.also
    assert sorted((jump.epoch, other.epoch)) == [9, 17]
    assert jump.after_ms - jump.before_ms == pytest.approx(max(first, second), abs=0.5)
    assert other.after_ms - other.before_ms == pytest.approx(min(first, second), abs=0.5)


def test_a_level_that_is_left_again_is_no_change() -> None:
    number = np.arange(2400)
    ms = noisy(2400) + 8.0 * ((number >= 800) & (number < 1600))
    assert largest_jump(step_trend.plain_steps(steps(ms, number // 100))) is None


def test_growth_is_no_jump() -> None:
    assert largest_jump(step_trend.plain_steps(steps(noisy(2000) + 0.005 * np.arange(2000)))) is None


def test_gaps_in_a_thinned_recording_do_not_steepen_the_slope() -> None:
    """Of the later steps one in ten was kept."""
    kept = np.concatenate((np.arange(1000), np.arange(1000, 11_000, 10)))
    ms = noisy(2000) + 0.001 * kept
    series = step_trend.StepSeries(kept.astype(float), np.arange(2000), ms, np.zeros(2000, dtype=np.int64))
    found = step_trend.series_growth(series)
    assert found is not None
    assert found.sure
    assert found.low_ms <= 0.001 <= found.high_ms


def test_too_few_steps_say_nothing() -> None:
    assert step_trend.series_growth(step_trend.plain_steps(steps(noisy(60)))) is None
    assert largest_jump(step_trend.plain_steps(steps(noisy(60)))) is None


def test_a_part_that_grows_is_seen_behind_a_machine_that_changes_its_speed() -> None:
    """Everything takes up to 1.9 times as long for stretches of the run; Python of a step grows from 0.1 to 0.7 ms."""
    n = 4000
    mood = np.repeat(np.random.default_rng(3).choice([1.0, 1.0, 1.9], 10), n // 10)
    own = np.linspace(0.1, 0.7, n) * mood
    drawn = steps((1.0 + np.random.default_rng(4).normal(0, 0.05, n)) * mood + own)
    trace = Trace(steps=drawn)
    alone = step_trend.series_growth(step_trend.plain_steps(drawn, own))
    found = step_trend.part_growth(trace, own)
    assert alone is not None
    assert not alone.sure
    assert found is not None
    assert found.low_ms < 0.6 / n < found.high_ms


def bent() -> np.ndarray:
    """0.7 to 14.6 ms along a bend, as arrays do that outgrow what the allocator keeps; with errors of a tenth."""
    course = np.interp(np.arange(900), (0, 600, 750, 899), (0.7, 6.0, 12.0, 14.6))
    return course * np.random.default_rng(5).normal(1, 0.1, 900)


def test_a_part_that_grows_along_a_bend_is_seen_though_no_line_tells_it() -> None:
    found = step_trend.part_growth(Trace(steps=steps(noisy(900, 4) + bent())), bent())
    assert found is not None
    assert found.low_ms < 0 < found.slope_ms  # by the line alone it would not be sure


def test_a_part_that_goes_up_and_down_does_not_grow_along_a_bend() -> None:
    """Six times as long at the end, but not ever longer."""
    course = np.interp(np.arange(900), (0, 200, 350, 500, 700, 899), (0.5, 5.0, 1.0, 5.5, 1.0, 6.0))
    own = course * np.random.default_rng(5).normal(1, 0.1, 900)
    assert step_trend.part_growth(Trace(steps=steps(noisy(900, 4) + own)), own) is None


def test_a_part_that_grows_with_all_the_rest_does_not_grow_by_itself() -> None:
    n = 4000
    slower = np.linspace(1.0, 1.9, n)
    own, rest = 0.3 * slower, (1.0 + np.random.default_rng(4).normal(0, 0.05, n)) * slower
    assert step_trend.part_growth(Trace(steps=steps(own + rest)), own) is None


def test_a_part_that_jumps_is_seen_behind_a_machine_that_changes_its_speed() -> None:
    """From the seventh epoch of fourteen on a callback takes 1.8 ms; epochs take up to twice as long meanwhile."""
    n, epochs = 1792, 14
    draw = np.random.default_rng(3)
    mood = np.repeat([1.0, 1.2, 1.1, 1.1, 0.95, 0.7, 1.9, 1.4, 1.5, 1.0, 1.0, 1.0, 1.0, 1.05], n // epochs)
    block = np.arange(n) // (n // epochs)
    callback = np.where(block >= 6, 1.8, 0.002) * mood
    rest = 1.5 * mood * draw.normal(1, 0.05, n)
    drawn = steps(rest + callback, block)
    trace = Trace(steps=drawn, categories={Category.CALLBACK: callback, Category.DISPATCH: rest})
    assert largest_jump(step_trend.comparable_steps(trace)) is None
    jump = part_jump(trace, callback)
    assert jump is not None
    assert jump.epoch == 7
    assert jump.after_ms - jump.before_ms == pytest.approx(1.8, rel=0.1)
    cause = SlowerEpochs()
    finding = cause.find(trace)
    assert finding is not None
    assert "callbacks took" in cause.evidence(trace, finding).says


def test_a_part_that_jumps_with_all_the_rest_does_not_jump_by_itself() -> None:
    n = 1792
    slower = np.where(np.arange(n) >= n // 2, 1.9, 1.0)
    own, rest = 0.3 * slower, (1.0 + np.random.default_rng(4).normal(0, 0.05, n)) * slower
    assert part_jump(Trace(steps=steps(own + rest)), own) is None


def test_epochs_whose_first_step_waits_longer_each_time_grow() -> None:
    block = np.repeat(np.arange(12), 10)
    ms = noisy(120)
    ms[::10] += 100.0 * (1 + np.arange(12))
    found = step_trend.epoch_growth(steps(ms, block))
    assert found is not None
    assert found.sure
    assert found.slope_ms == pytest.approx(1.0, rel=0.1)  # 10 ms a step more from epoch to epoch, of ten steps
    assert found.low_ms < found.slope_ms < found.high_ms
    same = step_trend.epoch_growth(steps(noisy(120), block))
    assert same is not None
    assert not same.sure
    assert step_trend.epoch_growth(steps(ms[:30], block[:30])) is None
