"""What got slower or faster between two runs, by category, with the noise of each.

Steps of one run are not independent: means are taken over stretches of neighbouring steps,
and the spread of those means is the noise (batch means). A change counts when it is larger
than the noise of both runs together.
"""

from __future__ import annotations

import numpy as np

from slowtrain.model import Category
from slowtrain.model.proof import Change, Comparison
from slowtrain.trace import Floats, Trace

STRETCHES = 20
SURE = 2.0  # standard errors: 95 % of the differences that are only noise lie within


def compare(before: Trace, after: Trace, names: tuple[str, str]) -> Comparison:
    """Mean steady steps of two runs, category by category, the largest change first."""
    whole = _change("step", before.steps.steady_ms, after.steps.steady_ms)
    rows = [
        _change(str(c), before.categories[c][before.steps.steady], after.categories[c][after.steps.steady])
        for c in Category
        if c in before.categories and c in after.categories
    ]
    kept = [r for r in rows if r.before_ms > 0 or r.after_ms > 0]
    return Comparison(names, whole, tuple(sorted(kept, key=lambda r: -abs(r.difference_ms))))


def _change(name: str, before: Floats, after: Floats) -> Change:
    low, high = SURE * _error(before), SURE * _error(after)
    noise = float(np.hypot(low, high))
    first, second = _mean(before), _mean(after)
    return Change(name, first, second, low, high, abs(second - first) > noise)


def _mean(column: Floats) -> float:
    return float(column.mean()) if len(column) else 0.0


def _error(column: Floats) -> float:
    """Standard error of the mean from the means of stretches; infinite where there are too few steps to tell."""
    stretches = min(STRETCHES, len(column) // 2)
    if stretches < 3:
        return float("inf")
    means = np.array([part.mean() for part in np.array_split(column, stretches)])
    return float(means.std(ddof=1) / np.sqrt(stretches))
