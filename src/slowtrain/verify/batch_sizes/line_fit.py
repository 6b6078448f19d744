"""Lines through processes, and the batch at which two lines cross, with intervals from the spread of processes.

A process is one value, because its steps are not independent. Times spread in proportion to themselves, so each counts
by the inverse of its square. Intervals come from draws of Student's distribution around the fit, with a fixed seed.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slowtrain.model.measurements import Fit, Overtaking, Range, Timing

DRAW_COUNT = 4000
DRAW_SEED = 20_240_817
INTERVAL_LEVELS = (0.025, 0.975)
LINE_PIECES = 60  # segments of a line in a chart

Draws = NDArray[np.float64]


def fit_timings(timings: Sequence[Timing]) -> tuple[Fit, Draws] | None:
    """The line, and draws of its two parameters; None with fewer than two batches or three processes."""
    batch = np.array([t.batch for t in timings], dtype=float)
    ms = np.array([t.step_ms for t in timings])
    if len(np.unique(batch)) < 2 or len(ms) < 3:
        return None
    design = np.stack([np.ones_like(batch), batch], axis=1) / ms[:, None]
    found, *_ = np.linalg.lstsq(design, np.ones_like(ms), rcond=None)
    rest = np.ones_like(ms) - design @ found
    freedom = len(ms) - 2
    spread = float(rest @ rest) / freedom
    shape = np.linalg.inv(design.T @ design) * spread
    # Each side has its own draws. With the same numbers both would err together, and their crossing would seem certain.
    draws = (
        found
        + _student_draws(freedom, 2, zlib.crc32(timings[0].setting.encode()))
        @ np.linalg.cholesky(shape + 1e-18 * np.eye(2)).T
    )
    off = max(abs(ms[batch == b].mean() - (found[0] + found[1] * b)) / ms[batch == b].mean() for b in np.unique(batch))
    fixed, each = (_draw_range(float(found[i]), draws[:, i]) for i in (0, 1))
    along = [float(b) for b in np.linspace(0, batch.max(), LINE_PIECES + 1)]
    line = tuple((b, _draw_range(float(found[0] + found[1] * b), draws[:, 0] + draws[:, 1] * b)) for b in along)
    return Fit(fixed, each, float(off), len(ms), line), draws


def crossing_batch(one: Draws, other: Draws, flat: tuple[float, float], steep: tuple[float, float], most: int) -> Range:
    """The batch from which ``one``, the flatter line, is lower: 0 if it always is, infinite if it never is.

    "Always" holds up to ``most``, the largest measured batch. If it is unknown which line is flatter, neither says what
    comes beyond.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (one[:, 0] - other[:, 0]) / (other[:, 1] - one[:, 1])
    lower = (one[:, 0] < other[:, 0]) & (one[:, 0] + one[:, 1] * most < other[:, 0] + other[:, 1] * most)
    found = np.where(other[:, 1] <= one[:, 1], np.where(lower, 0.0, np.inf), np.maximum(found, 0.0))
    gap = steep[1] - flat[1]
    value = max((flat[0] - steep[0]) / gap, 0.0) if gap > 0 else math.inf
    low, high = (float(np.quantile(found, level, method="nearest")) for level in INTERVAL_LEVELS)
    return Range(value, min(low, value), max(high, value))


def compare_at_batch(batch: int, sides: tuple[Sequence[Timing], Sequence[Timing]]) -> Overtaking | None:
    """Compares the sides at one batch by its own processes; spreads come from all batches of a side."""
    at = [[t for t in side if t.batch == batch] for side in sides]
    if not all(at):
        return None
    means = [float(np.mean([t.step_ms for t in side])) for side in at]
    fast, slow = (0, 1) if means[0] <= means[1] else (1, 0)
    steps = [_draw_means(means[i], len(at[i]), [(t.batch, t.step_ms) for t in sides[i]], 10 + i) for i in (fast, slow)]
    ready = [float(np.mean([_one_time_cost_ms(t) for t in at[i]])) for i in (fast, slow)]
    starts = [
        _draw_means(ready[k], len(at[i]), [(t.batch, _one_time_cost_ms(t)) for t in sides[i]], 20 + i)
        for k, i in enumerate((fast, slow))
    ]
    speedup = _draw_range(means[slow] / means[fast], steps[1] / np.maximum(steps[0], 1e-9))
    if any(len(side) < 2 for side in at):
        return Overtaking(batch, at[fast][0].setting, Range(speedup.value, 0.0, math.inf), None)
    needed = starts[0] - starts[1]
    gained = steps[1] - steps[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.where(needed <= 0, 0.0, np.where(gained > 0, needed / gained, np.inf))
    gap = means[slow] - means[fast]
    value = max((ready[0] - ready[1]) / gap, 0.0) if gap > 0 else math.inf
    return Overtaking(batch, at[fast][0].setting, speedup, _draw_range(value, count))


def _one_time_cost_ms(timing: Timing) -> float:
    """The one-time cost of a process: the time until its first step ended, minus one steady step."""
    return 1e3 * timing.start_s + timing.first_ms - timing.step_ms


def start_seconds(timings: Sequence[Timing]) -> Range:
    """Seconds until the first step, over all processes of a side."""
    values = [t.start_s for t in timings]
    mean = float(np.mean(values))
    if len(values) < 2:
        return Range(mean, 0.0, math.inf)
    draws = mean + _student_draws(len(values) - 1, 1)[:, 0] * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return _draw_range(mean, draws)


def _draw_means(mean: float, count: int, rows: Sequence[tuple[int, float]], stream: int) -> Draws:
    """Draws of a mean of ``count`` processes, with the relative spread of all batches."""
    groups: dict[int, list[float]] = {}
    for batch, value in rows:
        groups.setdefault(batch, []).append(value)
    logs = [np.log(np.maximum(v, 1e-9)) for v in groups.values() if len(v) > 1]
    freedom = sum(len(v) - 1 for v in logs)
    if not freedom:
        return np.full(DRAW_COUNT, mean)
    spread = math.sqrt(sum(float(((v - v.mean()) ** 2).sum()) for v in logs) / freedom)
    drawn: Draws = mean * np.exp(_student_draws(freedom, 1, stream)[:, 0] * spread / math.sqrt(count))
    return drawn


def _student_draws(freedom: int, width: int, stream: int = 0) -> Draws:
    chance = np.random.default_rng((DRAW_SEED, stream))
    scale = np.sqrt(freedom / np.maximum(chance.chisquare(freedom, DRAW_COUNT), 1e-9))
    drawn: Draws = chance.standard_normal((DRAW_COUNT, width)) * scale[:, None]
    return drawn


def _draw_range(value: float, draws: Any) -> Range:
    low, high = (float(np.quantile(draws, level, method="nearest")) for level in INTERVAL_LEVELS)
    return Range(value, min(low, value), max(high, value))
