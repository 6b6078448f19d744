"""From several measured batches to any batch: the peak, the largest that fits, and the error of such forecasts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from slowtrain.memory.allocation_replay import MemoryPool, ReplayOutcome, largest_fitting_batch, replay_requests
from slowtrain.memory.batch_scaling import MeasuredBatch, ScaledRequests, predict_third, scale_requests

NO_LIMIT_BYTES = 1 << 50
# Share of the limit that is always kept free, because ops of several threads come in another order in each run. Without
# it a transformer under 256 MiB was promised 204 samples: 203 fitted, 204 did not.
MIN_MARGIN_SHARE = 0.01
# Batches down to this share below the answer are tried as well, because pieces fall differently at every size.
NEARBY_SHARE = 1 / 64


@dataclass(frozen=True)
class PeakForecast:
    """``orders``: the sizes in the order of each record, because the order of ops varies and with it the placement."""

    measured: tuple[MeasuredBatch, ...]  # by batch
    orders: tuple[ScaledRequests, ...]
    error_share: float | None
    margin_share: float  # by which a forecast may be too low: see ``forecast_peaks``

    def outcome(self, batch: int, pool: MemoryPool | None = None, *, holders: bool = False) -> ReplayOutcome:
        """Replays the batch in ``pool``, by default an unlimited pool of the kind in which the records were made."""
        return replay_requests(self.requests(batch), batch, pool or unlimited_pool(self.measured[-1]), holders=holders)

    def requests(self, batch: int) -> ScaledRequests:
        """XLA chooses other kernels for other batches, so it uses the records next to that batch, else the largest."""
        if self.measured[-1].record.named:
            return self.orders[0]
        batches = [m.batch for m in self.measured]
        above = min(max(bisect_left(batches, batch), 1), len(batches) - 1)
        small, large = self.measured[above - 1], self.measured[above]
        return scale_requests(small, large, order=small if batch <= small.batch else large)

    def fits(self, batch: int, pool: MemoryPool) -> bool:
        """Whether the batch fits in every recorded order, with the margin kept free."""
        less = MemoryPool(int(pool.limit_bytes / (1 + self.margin_share)), pool.growth)
        orders = (self.requests(batch), *self.orders[1:])
        return all(replay_requests(order, batch, p).fits for order in orders for p in (less, pool))

    def largest_fit(self, pool: MemoryPool) -> int:
        """The largest batch that fits together with all batches just below it; 0 if none does."""
        known: dict[int, bool] = {}

        def fits(batch: int) -> bool:
            if batch not in known:
                known[batch] = self.fits(batch, pool)
            return known[batch]

        found = largest_fitting_batch(fits, self.measured[-1].batch)
        while found:
            step = max(int(found * NEARBY_SHARE / 4), 1)
            below = next((b for b in range(found - step, max(found - 4 * step, 0), -step) if not fits(b)), None)
            if below is None:
                return found
            found = largest_fitting_batch(lambda b, top=below: b < top and fits(b), 1)  # type: ignore[misc]
        return 0


def forecast_peaks(measured: Sequence[MeasuredBatch]) -> PeakForecast:
    """Builds the forecast. Raises ``ValueError`` for fewer than two batches.

    The margin is the amount by which forecasts of larger probes were too low, and at least a hundredth. For XLA's
    programs only the last forecast counts, because small batches use other kernels.
    """
    known = tuple(sorted(measured, key=lambda m: m.batch))
    if len(known) < 2:
        raise ValueError("a line needs two batches")
    errors = [_prediction_error(*three) for three in zip(known, known[1:], known[2:], strict=False)]
    high = known[-1]
    others = reversed(known[:-1]) if high.record.named else ()  # XLA's programs make requests in one order
    orders = (scale_requests(known[-2], high), *(scale_requests(one, high, order=one) for one in others))
    counted = errors if high.record.named else errors[-1:]
    return PeakForecast(known, orders, max(map(abs, errors), default=None), max([MIN_MARGIN_SHARE, *counted]))


def unlimited_pool(measured: MeasuredBatch) -> MemoryPool:
    """An unlimited pool of the same kind: with regions, pieces are larger than requests, which changes the peak."""
    return MemoryPool(NO_LIMIT_BYTES, growth="cpu" in measured.record.allocator)


def _prediction_error(first: MeasuredBatch, second: MeasuredBatch, third: MeasuredBatch) -> float:
    """The share by which the third's peak exceeds the prediction from the two smaller ones."""
    peak = replay_requests(predict_third(first, second, third), third.batch, unlimited_pool(third)).peak_bytes
    return third.record.peak_bytes / peak - 1
