"""How many steps two runs need to the same loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Floats

END_SHARE = 0.1  # of the steps: their mean loss is the loss that a run reaches
SMOOTHED_SHARE = 0.05  # of the steps: the loss of one batch says little, the mean of these is compared
MIN_SMOOTHED = 8  # steps; with fewer, two samples without an overlap are hardly three standard errors apart
MIN_RANK_ERRORS = 3.0  # standard errors of the rank sum: a smaller fall may be noise
MIN_FALL_SHARE = 0.01  # of the loss at the start


@dataclass(frozen=True)
class StepsToLoss:
    """``own`` and ``other`` steps to ``loss``; ``other`` is None if that run never had it.

    ``at_least``: the own run never had it, so that ``own`` are all its steps.
    """

    loss: float
    own: int
    other: int | None
    at_least: bool

    @property
    def times(self) -> float:
        """How many times as many steps the own run needs; 0 if the other run never had the loss."""
        return self.own / self.other if self.other else 0.0


def end_loss(losses: Floats) -> float:
    """The mean loss of the last tenth of the steps; infinite if one of them is not finite."""
    end = losses[-max(int(END_SHARE * len(losses)), 1) :]
    return float(end.mean()) if len(end) and np.isfinite(end).all() else math.inf


def is_falling(losses: Floats) -> bool:
    """Whether the loss at the end is clearly below that of the start, by ranks (Mann and Whitney).

    Means do not show it: the first few losses of a fast fall are far apart.
    """
    start, end = losses[: _smoothed_count(len(losses))], losses[-max(int(END_SHARE * len(losses)), MIN_SMOOTHED) :]
    if len(losses) < 2 * MIN_SMOOTHED or not np.isfinite(start).all() or not np.isfinite(end).all():
        return False
    pairs = len(start) * len(end)
    error = math.sqrt(pairs * (len(start) + len(end) + 1) / 12)
    above = float((start[:, None] > end).sum() + 0.5 * (start[:, None] == end).sum())
    fall = float(start.mean() - end.mean())
    return above - pairs / 2 > MIN_RANK_ERRORS * error and fall > MIN_FALL_SHARE * abs(float(start.mean()))


def compare_steps(own: Floats, other: Floats) -> StepsToLoss:
    """Compare a run with one at another rate, over equally many steps.

    If the loss of the own run does not fall, half of the way down from there, or from the start if that is lower, to
    the end of the other one counts, if that one's falls. The noise of a loss that does not fall reaches its own mean at
    any step.
    """
    if is_falling(own):
        loss = end_loss(own)
    else:
        # A loss that ends above its start had that level before its first useful step.
        start = max(float(other[0]), float(other[: _smoothed_count(len(other))].mean()))
        level = min(end_loss(own), start)
        loss = (level + end_loss(other)) / 2
        if not is_falling(other):
            return StepsToLoss(loss, len(own), None, at_least=True)
    steps = first_step_at(own, loss)
    return StepsToLoss(loss, steps or len(own), first_step_at(other, loss), at_least=steps is None)


def first_step_at(losses: Floats, loss: float) -> int | None:
    """The first step after which the mean of the last few steps is at most ``loss``; None if there is none."""
    if not math.isfinite(loss):
        return None
    first, means = mean_losses(losses)
    # Rounding must not hide that a run reaches its own end.
    reached = np.flatnonzero(means <= loss + 1e-9 * abs(loss))
    return int(reached[0]) + first if len(reached) else None


def mean_losses(losses: Floats) -> tuple[int, Floats]:
    """The mean of the last few losses after each step, and the number of steps after the first of these means.

    There are no means if there are fewer steps. A mean of a loss that is not finite is no number.
    """
    count = _smoothed_count(len(losses))
    if len(losses) < count:
        return count, np.zeros(0)
    finite = np.where(np.isfinite(losses), losses, np.nan)
    return count, np.convolve(finite, np.ones(count) / count, mode="valid")


def _smoothed_count(steps: int) -> int:
    return max(int(SMOOTHED_SHARE * steps), MIN_SMOOTHED)
