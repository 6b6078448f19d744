"""Whether a series of step times jumps to higher levels and stays there, between epochs or anywhere without any."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from slowtrain.trace import Floats, Ints, Trace
from slowtrain.trace.ordered import halfway, quantile
from slowtrain.trace.trend import LEAST_IN_STRETCH, LEAST_STEPS, Series, at_even_speed, comparable, hanging, jumped
from slowtrain.values import dataclass

MOST = 64  # stretches; more epochs than this are grouped
WITHOUT_EPOCHS = 24  # stretches of a run with too few epochs
LEAST_EPOCHS = 6
LEAST_SIDE = 3  # stretches before and after; fewer do not show a level
# Relative to the level before. Two cores of a virtual machine vary by more than a tenth from minute to minute.
LEAST_RISE = 0.15
SURE = 8.0  # standard errors; the best of sixty places is chosen, in autocorrelated noise
APART = 0.1  # of each side may overlap the other side's range


@dataclass(frozen=True)
class Change:
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
    also: tuple[Change, ...] = ()


def part_change(trace: Trace, column: Floats) -> Change | None:
    """Return how the step jumps by one part alone, which has much less noise than the whole; None if it does not."""
    whole = comparable(trace)
    if len(whole.ms) < LEAST_STEPS:
        return None
    part = at_even_speed(comparable(trace, column), comparable(trace, trace.steps.ms - column))
    before = float(halfway(whole.ms[: len(whole.ms) // 8]))
    found = change(part, LEAST_RISE * before)
    return replace(found, before_ms=before, after_ms=before + found.after_ms - found.before_ms) if found else None


def change(series: Series, least_ms: float | None = None) -> Change | None:
    """Return the largest of the jumps that explain the series best, if the run ends at the new level.

    At least ``least_ms`` are required; without it, a share of the level before.
    """
    parts, by_epoch = _parts(series)
    if len(parts) < 2 * LEAST_SIDE:
        return None
    level = np.array([float(halfway(series.ms[p])) for p in parts])
    levels = _levels(level, np.array([len(p) for p in parts], dtype=float))
    at = np.array([float(halfway(series.number[p])) for p in parts])
    if not jumped(at, level, len(levels) - 1):
        return None
    found: list[Change] = []
    split = 0
    for before, after in itertools.pairwise(levels):
        split += len(before)
        low, high = float(halfway(before)), float(halfway(after))
        lasts = float(halfway(level[-LEAST_SIDE:])) > (low + high) / 2
        apart = float(quantile(after, APART)) > float(quantile(before, 1 - APART))
        if lasts and apart and high - low >= (LEAST_RISE * low if least_ms is None else least_ms):
            early, late = (series.index[np.concatenate(side)] for side in (parts[:split], parts[split:]))
            first = int(parts[split][0])
            epoch = int(series.block[first] - series.block[0]) + 1 if by_epoch else 0
            found.append(Change(int(late[0]), float(series.number[first]), epoch, low, high, early, late))
    most = max(found, key=lambda one: one.after_ms - one.before_ms, default=None)
    return replace(most, also=tuple(one for one in found if one is not most)) if most is not None else None


def _levels(level: Floats, weight: Floats) -> list[Floats]:
    """Split the series into sections of one level each, at the best places, as long as both sides surely differ.

    A further jump on one side is not noise, so that each side is split before both are compared.
    """
    if len(level) < 2 * LEAST_SIDE:
        return [level]
    split = _best(level, weight)
    before, after = _levels(level[:split], weight[:split]), _levels(level[split:], weight[split:])
    return [*before, *after] if _errors(before, after) >= SURE else [level]


def _parts(series: Series) -> tuple[list[Ints], bool]:
    """Return the series in stretches of whole epochs if there are enough, else in equal ones."""
    n = len(series.ms)
    if n < LEAST_STEPS:
        return [], False
    begins = np.flatnonzero(np.diff(series.block, prepend=series.block[0] - 1))
    count = min(len(begins), MOST, n // LEAST_IN_STRETCH)
    if len(begins) >= LEAST_EPOCHS and count >= LEAST_EPOCHS:
        chosen = begins[np.linspace(0, len(begins), count, endpoint=False).astype(int)]
        return np.split(np.arange(n), chosen[1:]), True
    return np.array_split(np.arange(n), min(WITHOUT_EPOCHS, n // LEAST_IN_STRETCH)), False


def _best(level: Floats, weight: Floats) -> int:
    """Return the split with the smallest residual around two levels."""
    places = range(LEAST_SIDE, len(level) - LEAST_SIDE + 1)

    def left(split: int) -> float:
        rest = 0.0
        for side, w in ((level[:split], weight[:split]), (level[split:], weight[split:])):
            rest += float((w * (side - np.average(side, weights=w)) ** 2).sum())
        return rest

    return min(places, key=left)


def _errors(before: list[Floats], after: list[Floats]) -> float:
    """Return the difference of the levels at a split in standard errors, which include autocorrelation."""
    rest = np.concatenate([section - section.mean() for section in (*before, *after)])
    spread = float((rest**2).sum()) / max(len(rest) - len(before) - len(after), 1)
    low, high = before[-1], after[0]
    rise = abs(float(high.mean() - low.mean()))
    if spread <= 0:
        return float("inf") if rise else 0.0
    common = hanging(rest)
    error = np.sqrt(spread * (1 / len(low) + 1 / len(high)) * (1 + common) / (1 - common))
    return rise / float(error)
