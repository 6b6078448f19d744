"""Early steps held against late ones: what explains that late ones are slower, what a part took on either side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slowtrain.model import Category, Place
from slowtrain.trace import Floats, Ints, Trace
from slowtrain.values import dataclass

# Of the growth is what one part must have to explain it, and it must have grown twice as much as the rest: where all of
# a step got slower alike, it was the machine.
MOST_OF_IT, MORE_THAN_REST = 0.5, 2.0


@dataclass(frozen=True)
class Moved:
    """What explains that late steps are slower than early ones.

    ``ms`` a step by category is what late steps take more. ``kind`` is a category, ``line``, ``others``, ``clock``,
    ``processor``, ``disk``, ``allocator``, ``graph``, ``call`` or empty: then nothing that was measured explains it.
    ``says`` is a clause with its numbers. ``by`` is what makes that category grow, where figures of the machine or of
    tf.data tell: ``disk``, ``stage`` (one of tf.data's), or empty.
    """

    kind: str
    says: str
    where: tuple[Place, ...]
    ms: Mapping[Category, float]
    by: str = ""


@dataclass(frozen=True)
class Sides:
    """Early and late steps, as indices; what late ones take more by category; the lines met in both, in ms a step."""

    trace: Trace
    early: Ints
    late: Ints
    ms: Mapping[Category, float]
    lines: tuple[tuple[Place, float, float], ...]

    @property
    def step_ms(self) -> tuple[float, float]:
        return tuple(float(self.trace.steps.ms[i].mean()) for i in (self.early, self.late))  # type: ignore[return-value]

    def means(self, column: Floats) -> tuple[float, float]:
        """Of a column of the machine's samples in both stretches."""
        then, now = (mean(column, self.stretch(i)) for i in (self.early, self.late))
        return then, now

    def stretch(self, index: Ints) -> Ints:
        """Samples of the machine taken from the first of these steps to the last."""
        return within_ms(self.trace, self.trace.samples["time_ms"], index)

    def slowed_by(self, then: float, now: float) -> bool:
        """Whether what grew from ``then`` to ``now`` times as long makes up most of what steps got slower by."""
        before, after = self.step_ms
        return then > 0 and now / then - 1 >= MOST_OF_IT * (after / before - 1)


def explains(before: float, after: float, all_before: float, all_after: float) -> bool:
    """Whether one part has most of the growth, and grew more than the rest of the step by far."""
    grown, whole = after - before, all_after - all_before
    rest = (all_after - after) / max(all_before - before, 1e-9) - 1
    own = after / before - 1 if before > 0 else np.inf
    return whole > 0 and grown >= MOST_OF_IT * whole and own >= MORE_THAN_REST * max(rest, 0.0)


def within_ms(trace: Trace, at: Floats, index: Ints) -> Ints:
    """Which of these moments lie between the first of these steps and the last."""
    low, high = float(trace.steps.start_ms[index[0]]), float(trace.steps.end_ms[index[-1]])
    return np.flatnonzero((at >= low) & (at <= high))


def mean(column: Floats, side: Ints) -> float:
    """Of what was read of a column there; NaN where nothing was."""
    told = finite(column[side])
    return float(told.mean()) if len(told) else float("nan")


def finite(column: Floats) -> Floats:
    """What was read of it: not every sample reads everything."""
    return column[np.isfinite(column)]
