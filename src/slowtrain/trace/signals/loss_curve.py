"""The loss over the steps of a run, as its mean in equal stretches of steps, and what its shape shows.

The recorder reads the loss a few times in a second. Keras reports means since the epoch began; two of them give the
mean of the steps between them. The steps of other loops report the loss of one batch.

The shape is judged from the stretches alone: no model of the noise is assumed. What healthy noise does to them was
simulated (``clinic/simulated_losses.py``), and real healthy runs were recorded (``docs/convergence.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from msgspec import Struct

from slowtrain.columns.arrays import Floats
from slowtrain.trace import Trace

LOSS_FACT = "loss_series"
MIN_STEPS = 60  # of a run: fewer show a start, not a course
MIN_POINTS = 10  # at which the loss was read
STRETCHES = 10  # of equal numbers of steps
MAX_FITS = 2  # a pre-training and a training; agents that learn by reinforcement call fit again and again
MIN_POINTS_IN_STRETCH = 2  # if a point is the loss of one batch
MIN_OTHER_SHARE = 0.05  # of the steps: a source with fewer is a trial before the training
# The largest distance of a stretch from a straight line, as a share of the fall over the run. An exponential fall with
# a time constant of two thirds of the run reaches 0.11, one of a third of the run 0.23.
MAX_BEND_SHARE = 0.1
MIN_FALL_SHARE = 0.05  # of the first stretch: a smaller fall may be the noise of a training that has ended
MAX_FALL_SHARE = 0.75  # of the first stretch: a loss that fell by more is nearly there
RISE_FACTOR = 1.5  # times the first stretch
SPIKE_FACTOR = 5.0  # times the first loss of all, and every later one
MIN_LEVEL_SHARE = 0.7  # of the first loss of all: a loss that stays above it after a jump has learnt little
SWING = 1.5  # from below the first half stretch over this to above it times this is a swing
MIN_SWINGS = 2
PLATEAU_SHARE = 0.02  # of the last stretch: stretches that are no farther from it are a plateau
MIN_PLATEAU_STRETCHES = 5  # with four, noise makes one of 1 in 70 losses that fall slowly


class LossShape(Enum):
    """What the losses show. ``UNCLEAR`` shows nothing: a loss that falls and slows down may have a poor rate, too."""

    STRAIGHT = "straight"
    RISING = "rising"
    SWINGING = "swinging"
    SPIKED = "spiked"
    UNCLEAR = "unclear"


class LossCurve(Struct, frozen=True):
    """``means``: the mean loss in each stretch of ``steps`` steps in all. ``first``: the first loss that was read.

    ``highest`` and ``highest_later``: the highest mean between two points in the first stretch, and after it.
    ``swings``: how often the loss rose from below its first level to above it. ``in_fit``: Keras' ``fit`` reported it.
    """

    name: str
    steps: int
    means: tuple[float, ...]
    first: float
    highest: float
    highest_later: float
    swings: int
    in_fit: bool

    @property
    def fall_share(self) -> float:
        """The fall from the first to the last stretch, as a share of the first."""
        return 1 - self.means[-1] / self.means[0]

    @property
    def bend_share(self) -> float:
        """The largest distance of a stretch from a straight line, as a share of that line's fall; infinite if none."""
        x = np.arange(len(self.means), dtype=float)
        slope, start = np.polyfit(x, np.array(self.means), 1)
        fall = -float(slope) * float(x[-1])
        off = float(np.abs(np.array(self.means) - (start + slope * x)).max())
        return off / fall if fall > 0 else float("inf")

    @property
    def plateau_start(self) -> int | None:
        """The step since which the loss stays where it ends; None if it does not. A trained model's loss does, too."""
        far = PLATEAU_SHARE * abs(self.means[-1])
        flat = 0
        while flat < len(self.means) and abs(self.means[-1 - flat] - self.means[-1]) <= far:
            flat += 1
        return self.steps - self.steps * flat // len(self.means) if flat >= MIN_PLATEAU_STRETCHES else None

    @property
    def is_spiked(self) -> bool:
        """Whether the loss jumped in the first stretch, above its first value and above all that came later."""
        return self.highest > SPIKE_FACTOR * max(self.first, self.highest_later)

    @property
    def shape(self) -> LossShape:
        """One shape. Losses that are not positive throughout have no level that could be compared.

        Of loops other than ``fit`` nobody knows whether the loss should fall at all, for example that of a critic. Only
        a straight fall shows something there.
        """
        if not min(self.means) > 0 or not self.first > 0:
            return LossShape.UNCLEAR
        if self.in_fit:
            if self.is_spiked and min(self.means[1:]) > MIN_LEVEL_SHARE * self.first:
                return LossShape.SPIKED
            if self.swings >= MIN_SWINGS:
                return LossShape.SWINGING
            if min(self.means[-3:]) > RISE_FACTOR * self.means[0]:
                return LossShape.RISING
        if MIN_FALL_SHARE <= self.fall_share <= MAX_FALL_SHARE and self.bend_share < MAX_BEND_SHARE:
            return LossShape.STRAIGHT
        return LossShape.UNCLEAR


def read_loss_curve(trace: Trace) -> LossCurve | None:
    """The curve of the one loss that a run trains on.

    None without enough points, if several losses alternate, or if nobody knows what the reported number is.
    """
    found = trace.fact(LOSS_FACT, default=None)
    if not isinstance(found, Mapping) or found.get("others"):
        return None
    series = sorted(found.get("series") or (), key=lambda one: -int(one["last_step"]))
    others = [one for one in series[1:] if len(one["points"]) > MIN_OTHER_SHARE * len(series[0]["points"])]
    if not series or others:
        return None
    points = np.array(series[0]["points"], dtype=float)
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    in_fit = trace.steps.source == "fit" and len(fits) <= MAX_FITS
    return build_loss_curve(str(series[0]["name"]), points, in_fit=in_fit)


def build_loss_curve(name: str, points: Any, *, in_fit: bool) -> LossCurve | None:
    """The curve from rows of step, loss and the number of steps over which the loss is a mean (0: nobody knows)."""
    rows = np.asarray(points, dtype=float)
    if len(rows) < MIN_POINTS or rows[-1, 0] < MIN_STEPS or not rows[:, 2].all():
        return None
    averaged = bool((rows[:, 2] > 1).any())
    start, end, loss = _between_points(rows) if averaged else (rows[:, 0] - 1, rows[:, 0], rows[:, 1])
    edges = np.linspace(0.0, float(end[-1]), STRETCHES + 1)
    means, counts = _stretch_means(start, end, loss, edges)
    if not counts.all() or (not averaged and counts.min() < MIN_POINTS_IN_STRETCH):
        return None
    highest, highest_later = (float(loss[part].max()) for part in (start < edges[1], end > edges[1]))
    fine, _ = _stretch_means(start, end, loss, np.linspace(0.0, float(end[-1]), 2 * STRETCHES + 1))
    return LossCurve(
        name, int(end[-1]), tuple(map(float, means)), float(loss[0]), highest, highest_later, _swing_count(fine), in_fit
    )


def _swing_count(means: Floats) -> int:
    low, count, level = False, 0, float(means[0])
    for mean in means[1:]:
        if mean < level / SWING:
            low = True
        elif mean > level * SWING and low:
            low, count = False, count + 1
    return count


def _between_points(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """First and last step and mean loss between two points of one epoch, from means since the epoch began."""
    step, mean, span = rows.T
    begin = step - span  # steps before the epoch of a point
    same = np.concatenate([[False], begin[1:] == begin[:-1]])
    before = np.concatenate([[0.0], span[:-1]]) * same
    total_before = np.concatenate([[0.0], (mean * span)[:-1]]) * same
    wide = span > before
    loss = (mean * span - total_before)[wide] / (span - before)[wide]
    return (begin + before)[wide], step[wide], loss


def _stretch_means(start: Floats, end: Floats, loss: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Mean loss in each stretch, weighted by the steps of each interval that lie in it, and the intervals in it."""
    low, high = edges[:-1, None], edges[1:, None]
    inside = np.clip(np.minimum(end, high) - np.maximum(start, low), 0.0, None)
    total = inside.sum(1)
    return (inside * loss).sum(1) / np.where(total > 0, total, 1.0), (inside > 0).sum(1).astype(float)


def step_losses(losses: Sequence[float], over: Sequence[int]) -> Floats:
    """The loss of each step, from means since the epoch began where ``over`` says so (0 or 1: it is the loss)."""
    rows = np.array([(i + 1, v, max(n, 1)) for i, (v, n) in enumerate(zip(losses, over, strict=True))], dtype=float)
    return rows[:, 1] if not (rows[:, 2] > 1).any() else _between_points(rows)[2]
