"""From several measured batches to any: the peak, the largest that fits, and how far such a forecast was off."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from slowtrain.memory.replay import Outcome, Pool, largest, replay
from slowtrain.memory.scaling import Measured, Requests, foretold, scale
from slowtrain.values import dataclass

NO_LIMIT_BYTES = 1 << 50
# Of the limit, kept free always: ops of several threads come in another order in each run. Without it a transformer
# under 256 MiB was promised 204 samples; 203 fitted, 204 did not.
LEAST_MARGIN = 0.01
NEAR = 1 / 64  # below the answer, as a share of it, that is tried too: pieces fall differently at every size


@dataclass(frozen=True)
class Sized:
    """``orders`` are sizes in the order of each of the records: which op is first varies, and so where pieces fall."""

    measured: tuple[Measured, ...]  # by batch
    orders: tuple[Requests, ...]
    error_share: float | None
    margin_share: float  # by which a forecast may be too low: see ``sized``

    def outcome(self, batch: int, pool: Pool | None = None, *, holders: bool = False) -> Outcome:
        """Without a pool: in one without end, of the kind in which the records were made."""
        return replay(self.requests(batch), batch, pool or unlimited(self.measured[-1]), holders=holders)

    def requests(self, batch: int) -> Requests:
        """XLA chooses other kernels for other batches: by its records next to that batch, else by the largest."""
        if self.measured[-1].record.named:
            return self.orders[0]
        batches = [m.batch for m in self.measured]
        above = min(max(bisect_left(batches, batch), 1), len(batches) - 1)
        small, large = self.measured[above - 1], self.measured[above]
        return scale(small, large, order=small if batch <= small.batch else large)

    def fits(self, batch: int, pool: Pool) -> bool:
        """In every order that was seen, and with the margin kept free."""
        less = Pool(int(pool.limit_bytes / (1 + self.margin_share)), pool.growth)
        orders = (self.requests(batch), *self.orders[1:])
        return all(replay(order, batch, p).fits for order in orders for p in (less, pool))

    def largest(self, pool: Pool) -> int:
        """The largest batch that fits, with all those just below it; 0 where none does."""
        known: dict[int, bool] = {}

        def fits(batch: int) -> bool:
            if batch not in known:
                known[batch] = self.fits(batch, pool)
            return known[batch]

        found = largest(fits, self.measured[-1].batch)
        while found:
            step = max(int(found * NEAR / 4), 1)
            below = next((b for b in range(found - step, max(found - 4 * step, 0), -step) if not fits(b)), None)
            if below is None:
                return found
            found = largest(lambda b, top=below: b < top and fits(b), 1)  # type: ignore[misc]
        return 0


def sized(measured: Sequence[Measured]) -> Sized:
    """Raises ``ValueError`` for fewer than two batches.

    Kept free is what forecasts of larger probes were too low by, and a hundredth at the least; of XLA's programs, by
    the last of these alone, since small batches are computed by other kernels.
    """
    known = tuple(sorted(measured, key=lambda m: m.batch))
    if len(known) < 2:
        raise ValueError("a line needs two batches")
    errors = [_error(*three) for three in zip(known, known[1:], known[2:], strict=False)]
    high = known[-1]
    others = reversed(known[:-1]) if high.record.named else ()  # XLA's programs ask in one order
    orders = (scale(known[-2], high), *(scale(one, high, order=one) for one in others))
    counted = errors if high.record.named else errors[-1:]
    return Sized(known, orders, max(map(abs, errors), default=None), max([LEAST_MARGIN, *counted]))


def unlimited(measured: Measured) -> Pool:
    """What is in use at a peak depends on how memory comes: in regions, pieces are larger than what was asked for."""
    return Pool(NO_LIMIT_BYTES, growth="cpu" in measured.record.allocator)


def _error(first: Measured, second: Measured, third: Measured) -> float:
    """By what share the third's peak is above the one that the two smaller foretell."""
    peak = replay(foretold(first, second, third), third.batch, unlimited(third)).peak_bytes
    return third.record.peak_bytes / peak - 1
