"""Steps that get longer with their number, or jump to a higher level and stay there; which part of the step grows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from slowtrain.columns.arrays import Floats, Ints, median_value, quantile
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, stage_growth, step_trend
from slowtrain.trace.signals.drift import slowdown_reason
from slowtrain.trace.signals.drift.machine_conditions import SlowdownReason
from slowtrain.trace.signals.input_feed import COPY_BYTES_PER_MS
from slowtrain.trace.signals.step_trend import (
    MIN_STEPS_PER_STRETCH,
    MIN_TREND_STEPS,
    StepGrowth,
    StepSeries,
    at_constant_speed,
    autocorrelation_of,
    comparable_steps,
    jumps_explain_better,
)

MAX_EPOCH_STRETCHES = 64  # stretches; more epochs than this are grouped
STRETCHES_WITHOUT_EPOCHS = 24  # stretches of a run with too few epochs
MIN_JUMP_EPOCHS = 6
MIN_SIDE_STRETCHES = 3  # stretches before and after; fewer do not show a level
# Relative to the level before. Two cores of a virtual machine vary by more than a tenth from minute to minute.
MIN_RISE_SHARE = 0.15
MIN_JUMP_ERRORS = 8.0  # standard errors; the best of sixty places is chosen, in autocorrelated noise
MAX_OVERLAP_SHARE = 0.1  # of each side may overlap the other side's range
FIRST_QUARTER_END, LAST_QUARTER_START = 0.25, 0.75  # of the series; the quarters that are compared
MEAN_GROWTH_SHARE = 0.5 / (
    1 - FIRST_QUARTER_END
)  # growth of a mean step, relative to the difference of the last and first quarter
# Growth is often not linear: arrays that outgrow a cache, or the size up to which memory is reused, take ten times
# as long at once. Therefore it is compared with the very first steps, which had almost nothing to process.
FIRST_STEPS_SHARE, MIN_FIRST_STEPS = 0.02, 5  # of the steps, and steps
MIN_COPYING_SHARE = 0.1  # of Python's growth; copying the arrays once must take at least this much


@dataclass(frozen=True)
class StepJump:
    """A jump: from the step ``at`` (an index into the trace's steps) on, a step takes ``after_ms``.

    ``epoch`` counts from 1; 0 if the jump is not between two epochs. ``before`` and ``after`` are indices of steps.
    ``also``: smaller jumps of the same run, in order.
    """

    at: int
    number: float
    epoch: int
    before_ms: float
    after_ms: float
    before: Ints
    after: Ints
    also: tuple[StepJump, ...] = ()


def part_jump(trace: Trace, column: Floats) -> StepJump | None:
    """Return how the step jumps by one part alone, which has much less noise than the whole; None if it does not."""
    whole = comparable_steps(trace)
    if len(whole.ms) < MIN_TREND_STEPS:
        return None
    part = at_constant_speed(comparable_steps(trace, column), comparable_steps(trace, trace.steps.ms - column))
    before = float(median_value(whole.ms[: len(whole.ms) // 8]))
    found = largest_jump(part, MIN_RISE_SHARE * before)
    return replace(found, before_ms=before, after_ms=before + found.after_ms - found.before_ms) if found else None


def largest_jump(series: StepSeries, least_ms: float | None = None) -> StepJump | None:
    """Return the largest of the jumps that explain the series best, if the run ends at the new level.

    At least ``least_ms`` are required; without it, a share of the level before.
    """
    parts, by_epoch = _epoch_stretches(series)
    if len(parts) < 2 * MIN_SIDE_STRETCHES:
        return None
    level = np.array([float(median_value(series.ms[p])) for p in parts])
    levels = _level_sections(level, np.array([len(p) for p in parts], dtype=float))
    at = np.array([float(median_value(series.number[p])) for p in parts])
    if not jumps_explain_better(at, level, len(levels) - 1):
        return None
    found: list[StepJump] = []
    split = 0
    for before, after in itertools.pairwise(levels):
        split += len(before)
        low, high = float(median_value(before)), float(median_value(after))
        lasts = float(median_value(level[-MIN_SIDE_STRETCHES:])) > (low + high) / 2
        is_distinct = float(quantile(after, MAX_OVERLAP_SHARE)) > float(quantile(before, 1 - MAX_OVERLAP_SHARE))
        if lasts and is_distinct and high - low >= (MIN_RISE_SHARE * low if least_ms is None else least_ms):
            early, late = (series.index[np.concatenate(side)] for side in (parts[:split], parts[split:]))
            first = int(parts[split][0])
            epoch = int(series.block[first] - series.block[0]) + 1 if by_epoch else 0
            found.append(StepJump(int(late[0]), float(series.number[first]), epoch, low, high, early, late))
    most = max(found, key=lambda one: one.after_ms - one.before_ms, default=None)
    return replace(most, also=tuple(one for one in found if one is not most)) if most is not None else None


def _level_sections(level: Floats, weight: Floats) -> list[Floats]:
    """Split the series into sections of one level each, at the best places, as long as both sides surely differ.

    A further jump on one side is not noise, so that each side is split before both are compared.
    """
    if len(level) < 2 * MIN_SIDE_STRETCHES:
        return [level]
    split = _best_split(level, weight)
    before, after = _level_sections(level[:split], weight[:split]), _level_sections(level[split:], weight[split:])
    return [*before, *after] if _rise_in_errors(before, after) >= MIN_JUMP_ERRORS else [level]


def _epoch_stretches(series: StepSeries) -> tuple[list[Ints], bool]:
    """Return the series in stretches of whole epochs if there are enough, else in equal ones."""
    n = len(series.ms)
    if n < MIN_TREND_STEPS:
        return [], False
    begins = np.flatnonzero(np.diff(series.block, prepend=series.block[0] - 1))
    count = min(len(begins), MAX_EPOCH_STRETCHES, n // MIN_STEPS_PER_STRETCH)
    if len(begins) >= MIN_JUMP_EPOCHS and count >= MIN_JUMP_EPOCHS:
        chosen = begins[np.linspace(0, len(begins), count, endpoint=False).astype(int)]
        return np.split(np.arange(n), chosen[1:]), True
    return np.array_split(np.arange(n), min(STRETCHES_WITHOUT_EPOCHS, n // MIN_STEPS_PER_STRETCH)), False


def _best_split(level: Floats, weight: Floats) -> int:
    """Return the split with the smallest residual around two levels."""
    places = range(MIN_SIDE_STRETCHES, len(level) - MIN_SIDE_STRETCHES + 1)

    def squared_residual(split: int) -> float:
        rest = 0.0
        for side, w in ((level[:split], weight[:split]), (level[split:], weight[split:])):
            rest += float((w * (side - np.average(side, weights=w)) ** 2).sum())
        return rest

    return min(places, key=squared_residual)


def _rise_in_errors(before: list[Floats], after: list[Floats]) -> float:
    """Return the difference of the levels at a split in standard errors, which include autocorrelation."""
    rest = np.concatenate([section - section.mean() for section in (*before, *after)])
    spread = float((rest**2).sum()) / max(len(rest) - len(before) - len(after), 1)
    low, high = before[-1], after[0]
    rise = abs(float(high.mean() - low.mean()))
    if spread <= 0:
        return float("inf") if rise else 0.0
    common = autocorrelation_of(rest)
    error = np.sqrt(spread * (1 / len(low) + 1 / len(high)) * (1 + common) / (1 - common))
    return rise / float(error)


def find_step_growth(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    """Return the sure growth of the steady steps beyond the machine's own variation, with its reason; else None."""
    return trace.compute_once(_explain_step_growth)


def _explain_step_growth(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    series = step_trend.comparable_steps(trace)
    whole = step_trend.series_growth(series)
    if whole is None:
        return None
    why = slowdown_reason.find_slowdown_reason(trace, *first_and_last_quarter(trace))
    grows = whole if whole.sure else None
    if grows is None and why.kind in tuple(Category):
        # The machine's noise hides it in the whole step; the part of the step that grew has less noise.
        grows = step_trend.part_growth(trace, trace.categories[Category(why.kind)])
    longer = stage_growth.find_added_stages(trace) if why.kind == str(Category.INPUT) else None
    if longer is not None:
        why = replace(why, says=f"{why.says}; {longer[0]}", where=longer[1], by="")
    known = longer is not None or why.kind == "graph" or _copies_growing_arrays(trace, why, whole)
    if known and grows is None and whole.slope_ms > 0:
        grows = whole  # the reason is known, however noisy the steps are
    if grows is None:
        return None
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    return (grows, why) if slowdown_reason.exceeds_machine_noise(why, lasted, grows.grown_share) else None


def _copies_growing_arrays(trace: Trace, why: SlowdownReason, whole: StepGrowth) -> bool:
    """Return whether the growing Python copies arrays that are replaced by longer ones in each step.

    Depending on their size, memory for them is returned and requested again, so that such steps grow in jumps, up and
    down.
    """
    if why.kind != str(Category.PYTHON) or whole.grown_share < step_trend.MIN_GROWTH_SHARE:
        return False
    copying = sum(one.length for one in growth_suspects.growing_arrays(trace)) / COPY_BYTES_PER_MS
    return copying >= MIN_COPYING_SHARE * why.ms[Category.PYTHON]


def first_and_last_quarter(trace: Trace) -> tuple[Ints, Ints]:
    """Return the indices of the first and the last quarter of the comparable steps."""
    index = step_trend.comparable_steps(trace).index
    return index[: int(FIRST_QUARTER_END * len(index))], index[int(LAST_QUARTER_START * len(index)) :]


def slower_ms_per_step(trace: Trace) -> float:
    """Return by how much each step is longer than the previous one; 0 if that is not sure."""
    found = find_step_growth(trace)
    return max(found[0].slope_ms, 0.0) if found is not None else 0.0


def category_growth_ms(trace: Trace, category: Category) -> float:
    """Return the growth of a category in a mean step since the first steps, if it is the one that grows; else 0."""
    found = find_step_growth(trace)
    return (
        ms_since_first_steps(trace, found[1], category) if found is not None and found[1].kind == str(category) else 0.0
    )


def ms_since_first_steps(trace: Trace, why: SlowdownReason, category: Category) -> float:
    """Return the part of a category in a mean step that the first steps lack.

    At least what a line through them gives.
    """
    index = step_trend.comparable_steps(trace).index
    first = trace.categories[category][index[: max(int(FIRST_STEPS_SHARE * len(index)), MIN_FIRST_STEPS)]]
    begun = float(median_value(first)) if len(first) else 0.0
    return max(trace.mean(category) - begun, MEAN_GROWTH_SHARE * why.ms[category])
