"""A thinned recording says what the whole one says."""

from __future__ import annotations

import random
import sqlite3
import zlib
from pathlib import Path

import numpy as np
import pytest

from slowtrain.errors import InputError
from slowtrain.model import Category
from slowtrain.recording import recording_folder, thinned_summary
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from ..capture import made_up  # noqa: TID252  tests are no package

STEPS = 160_000
SMALL = 20_000_000  # bytes: a hundred thousand spans stay whole, of half a million


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace]:
    """The same run, recorded whole and thinned."""
    folder = tmp_path_factory.mktemp("runs")
    whole = recording_trace.load_recording(made_up.record(folder / "whole", STEPS, 10**10))
    return whole, recording_trace.load_recording(made_up.record(folder / "thinned", STEPS, SMALL))


def test_most_is_gone(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    assert len(whole.steps) == STEPS
    assert whole.steps.whole is None
    assert 0.05 * STEPS < len(thin.steps) < 0.5 * STEPS
    assert thin.steps.whole is not None
    assert len(thin.steps.whole.stretches) > 10


def test_the_numbers_agree(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    assert thin.steps.count == whole.steps.count
    assert thin.step_ms == pytest.approx(whole.step_ms, rel=1e-4)
    assert thin.steps.total_ms == pytest.approx(whole.steps.total_ms, rel=1e-4)
    assert thin.steps.warm == whole.steps.warm
    assert thin.run_ms == pytest.approx(whole.run_ms, rel=1e-9)
    for share in (0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.9995):
        assert thin.steps.quantile_ms(share) == pytest.approx(whole.steps.quantile_ms(share), rel=0.022)


def test_the_parts_of_a_step_agree_and_add_up(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    for category in Category:
        assert thin.mean(category) == pytest.approx(whole.mean(category), abs=0.005 * whole.step_ms)
    assert sum(thin.mean(c) for c in Category) == pytest.approx(thin.step_ms, rel=1e-9)


def test_the_phases_of_the_run_agree_and_add_up(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    spent = {p.name: p.ms for p in thin.run.parts}
    for part in whole.run.parts:
        assert spent.get(part.name, 0.0) == pytest.approx(part.ms, abs=0.002 * whole.run_ms), part.name
    assert sum(spent.values()) == pytest.approx(thin.run_ms, rel=1e-9)


def test_each_long_step_is_there_as_it_was(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    assert thin.steps.whole is not None
    assert thin.steps.whole.long_ms < 10 < whole.steps.ms.max()
    expected = np.flatnonzero(whole.steps.steady_or_rare & (whole.steps.ms > 10))
    assert len(expected) > 100
    # At the edges of stretches a step may lack its end: two a stretch, not long ones but by chance.
    at = np.searchsorted(thin.steps.number, expected)
    found = np.isin(expected, thin.steps.number)
    assert found.all()
    assert (np.abs(thin.steps.ms[at] - whole.steps.ms[expected]) < 1e-5).mean() > 0.99
    assert np.allclose(thin.steps.start_ms[at], whole.steps.start_ms[expected], atol=1e-5)
    # With all that ran in them.
    for column in (Category.CALLBACK, Category.UNATTRIBUTED):
        same = np.abs(thin.categories[column][at] - whole.categories[column][expected]) < 1e-3
        assert same.mean() > 0.98


def test_each_step_that_is_left_is_the_one_it_says(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    steps = thin.steps
    assert (np.diff(steps.number) > 0).all()
    inner = steps.steady
    assert np.allclose(steps.ms[inner], whole.steps.ms[steps.number[inner]], atol=1e-5)
    assert (steps.block[inner] == whole.steps.block[steps.number[inner]]).all()


def test_charts_reach_over_the_whole_run(both: tuple[Trace, Trace]) -> None:
    whole, thin = both
    at = np.linspace(0, whole.run_ms * 0.99, 20)
    assert np.diff(np.searchsorted(thin.steps.start_ms, at)).min() > 0
    told = thin.steps.whole
    assert told is not None
    one = told.stretches[len(told.stretches) // 2]
    real = whole.steps.ms[one.number : one.number + one.count]
    assert one.mean_ms == pytest.approx(float(real.mean()), rel=2e-3)
    assert int(one.buckets.sum()) == one.count


def test_it_is_a_sample_without_a_period() -> None:
    """Stretches are drawn: of those whose number is odd as many as of those whose number is even."""
    from slowtrain.recording.thinning import is_kept_at_level

    for level in (1, 3, 5):
        kept = [i for i in range(1 << 14) if is_kept_at_level(i, level)]
        assert len(kept) == 1 << 14 - level
        assert 0.4 < np.mean([i % 2 for i in kept]) < 0.6
        assert {i >> level for i in kept} == set(range(1 << 14 - level))
        if level > 1:
            assert all(is_kept_at_level(i, level - 1) for i in kept)


# -- summaries


def rows(seed: int, count: int, begin: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    chance, at, made = random.Random(seed), begin, []
    for _ in range(count):
        took = chance.randrange(900_000, 1_100_000) * (40 if chance.random() < 0.01 else 1)
        made += [(1, at, at + took * 8 // 10, 5, 0), (2, at + 1000, at + took // 2, 5, 0)]
        at += took
    return np.array(made, dtype=np.int64)


def lane(number: int) -> str:
    return {1: "step", 2: "callback"}.get(number, "gc")


def test_two_summaries_are_one() -> None:
    none = thinned_summary.sorted_ns([])
    first = rows(1, 800)
    second = rows(2, 800, int(first[:, 2].max()) + 1000)
    cut, end = int(second[0, 1]), int(second[:, 2].max())
    apart = thinned_summary.join_holes(
        thinned_summary.summarize_spans(first, lane, none, 0, cut),
        thinned_summary.summarize_spans(second, lane, none, cut, end),
    )
    together = thinned_summary.summarize_spans(np.concatenate((first, second)), lane, none, 0, end)
    assert apart.spans == together.spans
    assert (apart.start_ns, apart.end_ns) == (together.start_ns, together.end_ns)
    assert apart.turns[1].spread.count == together.turns[1].spread.count
    assert apart.long[:, :2].tolist() == together.long[np.isin(together.long[:, 1], apart.long[:, 1])][:, :2].tolist()
    numbers = {int(s): i for i, s in enumerate(sorted(r[1] for r in (*first, *second) if r[0] == 1))}
    assert all(numbers[int(start)] == number for _, start, _, number in apart.long)


def test_no_turn_crosses_a_break() -> None:
    mine = np.array([(1, i * 1000, i * 1000 + 400, 5, 0) for i in range(20)], dtype=np.int64)
    made = thinned_summary.summarize_spans(mine, lane, thinned_summary.sorted_ns([5500, 9500]), 0, 20_000)
    assert made.turns[1].spread.total_ns == 17 * 1000 + 3 * 400


def test_a_summary_comes_back() -> None:
    made = thinned_summary.summarize_spans(rows(3, 500), lane, thinned_summary.sorted_ns([]), 0, 10**9)
    again = thinned_summary.unpack_hole(thinned_summary.pack_hole(made))
    assert (again.spans, again.turns, again.lanes) == (made.spans, made.turns, made.lanes)
    assert (again.long == made.long).all()
    assert (again.kept == made.kept).all()


def test_what_is_left_of_a_hole_is_bounded() -> None:
    hole = thinned_summary.summarize_spans(rows(0, 2000), lane, thinned_summary.sorted_ns([]), 0, 1)
    for seed in range(1, 20):
        hole = thinned_summary.join_holes(
            hole,
            thinned_summary.summarize_spans(rows(seed, 2000, seed * 10**10), lane, thinned_summary.sorted_ns([]), 0, 1),
        )
    assert len(hole.kept) <= 2 * thinned_summary.MAX_KEPT_SPANS
    assert len(hole.long) <= thinned_summary.MAX_LONG_TURNS
    assert hole.turns[1].unkept_ns > 0  # and it says so
    assert hole.spans[1].count == 40_000
    assert len(thinned_summary.pack_hole(hole)) < 60_000


@pytest.mark.parametrize("damage", [b"", b"x" * 50, zlib.compress(b"\xff" * 8), zlib.compress(bytes(8) + b"{}")])
def test_a_damaged_summary(damage: bytes, tmp_path: Path) -> None:
    folder = made_up.record(tmp_path / "run", 90_000, 16_000_000)
    database = sqlite3.connect(folder / recording_folder.RECORDING_FILE)
    database.execute("UPDATE hole SET data = ? WHERE first = (SELECT min(first) FROM hole)", (damage,))
    database.commit()
    database.close()
    with pytest.raises(InputError, match="damaged recording"):
        recording_trace.load_recording(folder)
