"""Compares early and late steps: what explains that late ones are slower, and the time of a part on each side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Floats, Ints
from slowtrain.model import Category, Place
from slowtrain.trace import Trace

# A part explains the growth if it has this share of it, and grew this many times as much as the rest. If all of
# a step got slower equally, it was the machine.
MIN_GROWTH_PART, MIN_RATIO_TO_REST = 0.5, 2.0


@dataclass(frozen=True)
class SlowdownReason:
    """What explains that late steps are slower than early ones.

    ``ms`` is the increase per step by category. ``kind`` is a category, ``line``, ``others``, ``clock``,
    ``processor``, ``disk``, ``allocator``, ``graph``, ``call`` or empty: then nothing that was measured explains it.
    ``says`` is a clause with its numbers. ``by`` is what makes that category grow, if the machine's figures or
    tf.data show it: ``disk``, ``stage`` (of tf.data), or empty.
    """

    kind: str
    says: str
    where: tuple[Place, ...]
    ms: Mapping[Category, float]
    by: str = ""


@dataclass(frozen=True)
class EarlyAndLate:
    """Early and late steps, as indices; increase of late ones by category; lines met in both, in ms per step."""

    trace: Trace
    early: Ints
    late: Ints
    ms: Mapping[Category, float]
    lines: tuple[tuple[Place, float, float], ...]

    @property
    def step_ms(self) -> tuple[float, float]:
        return tuple(float(self.trace.steps.ms[i].mean()) for i in (self.early, self.late))  # type: ignore[return-value]

    def means(self, column: Floats) -> tuple[float, float]:
        """Return the means of a column of the machine's samples in both stretches."""
        then, now = (finite_mean(column, self.stretch(i)) for i in (self.early, self.late))
        return then, now

    def stretch(self, index: Ints) -> Ints:
        """Return the machine samples taken from the first of these steps to the last."""
        return moments_within(self.trace, self.trace.samples["time_ms"], index)

    def slowed_by(self, then: float, now: float) -> bool:
        """Return whether a change from ``then`` to ``now`` times explains most of the slowdown."""
        before, after = self.step_ms
        return then > 0 and now / then - 1 >= MIN_GROWTH_PART * (after / before - 1)


def explains_growth(before: float, after: float, all_before: float, all_after: float) -> bool:
    """Return whether one part has most of the growth, and grew much more than the rest of the step."""
    grown, whole = after - before, all_after - all_before
    rest = (all_after - after) / max(all_before - before, 1e-9) - 1
    own = after / before - 1 if before > 0 else np.inf
    return whole > 0 and grown >= MIN_GROWTH_PART * whole and own >= MIN_RATIO_TO_REST * max(rest, 0.0)


def moments_within(trace: Trace, at: Floats, index: Ints) -> Ints:
    """Return which of these moments lie between the first of these steps and the last."""
    low, high = float(trace.steps.start_ms[index[0]]), float(trace.steps.end_ms[index[-1]])
    return np.flatnonzero((at >= low) & (at <= high))


def finite_mean(column: Floats, side: Ints) -> float:
    """Return the mean of a column's readings there; NaN without readings."""
    told = finite_values(column[side])
    return float(told.mean()) if len(told) else float("nan")


def finite_values(column: Floats) -> Floats:
    """Return a column's readings; not every sample reads every figure."""
    return column[np.isfinite(column)]
