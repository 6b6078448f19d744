"""The steps of a run, and totals over all steps of a long run, of which only summaries are kept."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct, field

from slowtrain.columns.arrays import BUCKETS_PER_DOUBLING, NO_FLOATS, NO_INTS, Bools, Floats, Ints, quantile
from slowtrain.model import Place

# Fewer steady steps say nothing, unless they took this long together.
MIN_TELLING_STEPS, MIN_TELLING_STEPS_MS = 8, 500.0


class ThinnedStretch(Struct, frozen=True):
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


class RunTotals(Struct, frozen=True):
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


class Steps(Struct, frozen=True, dict=True):
    """All steps of the run in order.

    ``source`` says what a step is here (``fit``, ``train_on_batch``, ``function train_step``, …). ``steady`` marks
    undisturbed steps after warm-up, ``windowed`` those disturbed by a profiler window or a stop of the process.
    ``block`` numbers the unbroken stretches (usually epochs). ``size`` is samples per step, 0 if unknown.

    In a long run most stretches are thinned. Then the steps are those of the kept stretches, and the exact long steps
    of the others. The latter are ``rare`` and not steady, because they would be over-represented. Steps at the
    ``edge`` of a stretch are not steady either, because a part of them is missing: next to a thinned stretch, and in
    an unbroken one whose last step ends with its call. ``whole`` describes all steady steps of the run.
    """

    source: str = ""
    start_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    end_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    steady: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    windowed: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))
    block: Ints = field(default_factory=lambda: NO_INTS)
    size: Ints = field(default_factory=lambda: NO_INTS)
    training: bool = True
    place: Place | None = None
    numbers: Ints | None = None
    rare: Bools | None = None
    edge: Bools | None = None
    whole: RunTotals | None = None

    def __len__(self) -> int:
        return len(self.start_ms)

    @property
    def ms(self) -> Floats:
        return self.end_ms - self.start_ms

    @property
    def number(self) -> Ints:
        """The number of each step in the run, from 0."""
        return np.arange(len(self), dtype=np.int64) if self.numbers is None else self.numbers

    @property
    def steady_ms(self) -> Floats:
        """Steady step times; in a thinned run a uniform sample.

        See ``count``, ``total_ms``, ``quantile_ms`` for totals.
        """
        return self.ms[self.steady]

    @cached_property
    def mean_ms(self) -> float:
        """Mean steady step of the run, the total of the attribution."""
        if self.whole is not None and self.whole.count:
            return self.whole.total_ms / self.whole.count
        steady = self.steady_ms
        return float(steady.mean()) if len(steady) else 0.0

    @property
    def count(self) -> int:
        """Number of steady steps of the run, including thinned ones."""
        return int(self.steady.sum()) if self.whole is None else self.whole.count

    @property
    def total_ms(self) -> float:
        """Total time of these steps."""
        return float(self.steady_ms.sum()) if self.whole is None else self.whole.total_ms

    @property
    def warm(self) -> int:
        """Number of warm-up steps."""
        # Steps in windows are neither warm-up nor steady, because they were disturbed on purpose.
        early = ~self.steady_or_rare & ~self.windowed
        return int((early if self.edge is None else early & ~self.edge).sum())

    @property
    def steady_or_rare(self) -> Bools:
        """The steady steps, and the long ones of thinned stretches: it includes every long step of the run."""
        return self.steady if self.rare is None else self.steady | self.rare

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of all steady steps of the run; NaN without any."""
        if self.whole is not None:
            return self.whole.quantile_ms(share)
        return float(quantile(self.steady_ms, share)) if self.steady.any() else float("nan")

    def mean_of(self, column: Floats) -> float:
        """Return the mean of a column over the steady steps. Columns that add up to the step have means that add up."""
        if self.whole is None:
            return float(column[self.steady].mean()) if self.steady.any() else 0.0
        return float(self.whole.weight @ column)
