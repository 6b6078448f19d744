"""Totals over all steps of a long run, including those of which only summaries are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BUCKETS_PER_DOUBLING = 32  # histogram buckets per doubling of the duration; each is 2.2 % wide


@dataclass(frozen=True)
class ThinnedStretch:
    """Summary of consecutive steps: number of the first one, and a histogram of their durations."""

    number: int
    count: int
    start_ms: float
    end_ms: float
    total_ms: float
    bucket_ms: Floats
    buckets: Ints

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0


@dataclass(frozen=True)
class RunTotals:
    """All steady steps of a thinned run: count, total time and duration histogram (``bucket_ms`` ascending).

    ``weight`` is the share of each kept step in the means of the run: the weighted sum of their times is exactly
    ``total_ms / count``.
    """

    count: int
    total_ms: float
    bucket_ms: Floats
    buckets: Ints
    weight: Floats
    stretches: tuple[ThinnedStretch, ...] = ()
    long_ms: float = 0.0  # every step of the run that is longer was kept

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of the step time, interpolated inside its bucket; NaN without steps."""
        if not len(self.buckets):
            return float("nan")
        reached = np.cumsum(self.buckets)
        wanted = share * (reached[-1] - 1)
        at = min(int(np.searchsorted(reached, wanted, side="right")), len(reached) - 1)
        into = (wanted + 0.5 - (reached[at] - self.buckets[at])) / self.buckets[at]
        return float(self.bucket_ms[at] * 2.0 ** ((min(into, 1.0) - 0.5) / BUCKETS_PER_DOUBLING))
