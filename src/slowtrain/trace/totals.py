"""What all steps of a long run sum to, those included of which only summaries are left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowtrain.values import dataclass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BUCKETS = 32  # of durations, to a doubling: 2.2 % wide


@dataclass(frozen=True)
class Stretch:
    """Neighbouring steps of which a summary is left: the first one's number, and all their times in fine buckets."""

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
class Whole:
    """All steady steps of a thinned run: how many, their time, how it is spread (``bucket_ms`` in order).

    ``weight`` is the share that each step which is here has in the means of the run: of their times it makes
    exactly ``total_ms / count``.
    """

    count: int
    total_ms: float
    bucket_ms: Floats
    buckets: Ints
    weight: Floats
    stretches: tuple[Stretch, ...] = ()
    long_ms: float = 0.0  # every longer step of the run is here

    def quantile_ms(self, share: float) -> float:
        """The middle of its bucket, moved as far as the share reaches into it."""
        if not len(self.buckets):
            return float("nan")
        reached = np.cumsum(self.buckets)
        wanted = share * (reached[-1] - 1)
        at = min(int(np.searchsorted(reached, wanted, side="right")), len(reached) - 1)
        into = (wanted + 0.5 - (reached[at] - self.buckets[at])) / self.buckets[at]
        return float(self.bucket_ms[at] * 2.0 ** ((min(into, 1.0) - 0.5) / BUCKETS))
