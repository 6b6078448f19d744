"""From one epoch on, all steps are slower."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause, slowdown_cures
from slowtrain.columns.arrays import Floats, Ints, median_value, quantile
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals import step_trend
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.drift.machine_conditions import SlowdownReason
from slowtrain.trace.signals.step_trend import (
    MIN_STEPS_PER_STRETCH,
    MIN_TREND_STEPS,
    StepSeries,
    at_constant_speed,
    autocorrelation_of,
    comparable_steps,
    jumps_explain_better,
)
from slowtrain.whatif import Drop, Remedy

MAX_EPOCH_STRETCHES = 64  # stretches; more epochs than this are grouped
STRETCHES_WITHOUT_EPOCHS = 24  # stretches of a run with too few epochs
MIN_JUMP_EPOCHS = 6
MIN_SIDE_STRETCHES = 3  # stretches before and after; fewer do not show a level
# Relative to the level before. Two cores of a virtual machine vary by more than a tenth from minute to minute.
MIN_RISE_SHARE = 0.15
MIN_JUMP_ERRORS = 8.0  # standard errors; the best of sixty places is chosen, in autocorrelated noise
MAX_OVERLAP_SHARE = 0.1  # of each side may overlap the other side's range


class JumpFinding(Struct, frozen=True):
    jump: StepJump
    reason: SlowdownReason


class SlowerEpochs(Cause[JumpFinding]):
    """From some epoch on every step takes longer, and it stays so."""

    title = "All steps are slower from one epoch on"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})

    def find(self, trace: Trace) -> JumpFinding | None:
        return _jump_with_reason(trace)

    def evidence(self, trace: Trace, finding: JumpFinding) -> Evidence:
        jump, reason = finding.jump, finding.reason
        says = f"a step takes {_jump_text(jump)}"
        for one in jump.also:
            says += f"; {_jump_text(one)}"
        says += f"; {reason.says}" if reason.says else "; nothing that was measured explains it"
        numbers = {"before_ms": jump.before_ms, "after_ms": jump.after_ms, "step": jump.number}
        return Evidence(says, numbers | ({"epoch": float(jump.epoch)} if jump.epoch else {}), reason.where)

    def remedies(self, trace: Trace, finding: JumpFinding) -> Sequence[Remedy]:
        more = max(trace.step_ms - finding.jump.before_ms, 0.0)
        grown_ms = finding.reason.ms
        whole = sum(grown_ms.values())
        return [Drop({c: ms / whole * more for c, ms in grown_ms.items()}, spread=(0.6, 1.1))] if whole > 0 else []

    def cures(self, trace: Trace, finding: JumpFinding) -> Iterable[Prescription]:
        kind = finding.reason.by or finding.reason.kind
        says = slowdown_cures.CURE_BY_REASON.get(
            kind, "look at what the script switches on there: a schedule, layers, augmentation"
        )
        yield Prescription(
            "advice", Effect.CHANGES_TRAINING if kind not in slowdown_cures.CURE_BY_REASON else Effect.EXACT, says
        )


def _jump_text(jump: StepJump) -> str:
    start = f"epoch {jump.epoch}" if jump.epoch else f"step {jump.number:.0f}"
    return f"{format_number(jump.after_ms)} ms from {start} on, {format_number(jump.before_ms)} ms before"


def _jump_with_reason(trace: Trace) -> JumpFinding | None:
    series = step_trend.comparable_steps(trace)
    jump = largest_jump(series) or _jump_of_a_part(trace)
    if jump is None:
        return None
    reason = slowdown_reason.find_slowdown_reason(trace, jump.before, jump.after)
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    grown = jump.after_ms / jump.before_ms - 1
    return JumpFinding(jump, reason) if slowdown_reason.exceeds_machine_noise(reason, lasted, grown) else None


def _jump_of_a_part(trace: Trace) -> StepJump | None:
    """The jump of the part of the step that grew most, whose noise is less than that of the whole step."""
    if (
        len(step_trend.comparable_steps(trace).ms) < step_trend.MIN_TREND_STEPS
        or step_growth.find_step_growth(trace) is not None
    ):
        return None
    kind = slowdown_reason.find_slowdown_reason(trace, *step_growth.first_and_last_quarter(trace)).kind
    return part_jump(trace, trace.categories[Category(kind)]) if kind in tuple(Category) else None


class StepJump(Struct, frozen=True):
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
