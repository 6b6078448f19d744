"""Whether a run at some batch fits a card: its requests, replayed in the simulated allocator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slowtrain.memory.bfc import Allocator
from slowtrain.memory.scaling import Requests

MOST_BATCH = 1 << 24


@dataclass(frozen=True)
class Pool:
    """The memory that is there, and whether it comes in regions as it is asked for or all at once."""

    limit_bytes: int
    growth: bool


@dataclass(frozen=True)
class Outcome:
    """``at_peak`` are the requests that were held when most was in use; ``failed`` is the one that did not fit."""

    fits: bool
    peak_bytes: int
    pool_bytes: int
    at_peak: tuple[int, ...]
    failed: int | None
    free_bytes: int  # in all, where one failed
    largest_free_bytes: int


def replay(requests: Requests, batch: int, pool: Pool, *, holders: bool = False) -> Outcome:
    """``holders``: also notes what was held at the peak, which takes longer."""
    allocator = Allocator(pool.limit_bytes, growth=pool.growth)
    sizes = requests.sizes(batch)
    held: dict[int, int] = {}
    at_peak: tuple[int, ...] = ()
    before = requests.measured.record.before_bytes
    failed = -1 if before and allocator.allocate(before) is None else None
    for at, taken in requests.order if failed is None else ():
        if not taken:
            if at in held:
                allocator.free(held.pop(at))
            continue
        peak = allocator.peak_bytes
        address = allocator.allocate(sizes[at])
        if address is None and _waited(requests, at, held, allocator):
            address = allocator.allocate(sizes[at])
        if address is None:
            failed = at
            break
        held[at] = address
        if holders and allocator.peak_bytes > peak:
            at_peak = tuple(held)
    return Outcome(
        failed is None,
        allocator.peak_bytes,
        allocator.pool_bytes,
        at_peak,
        failed,
        allocator.limit_bytes - allocator.in_use_bytes,
        allocator.largest_free_bytes,
    )


def _waited(requests: Requests, at: int, held: dict[int, int], allocator: Allocator) -> bool:
    """A request that fails waits until another thread gives memory back, ten seconds at most.

    What is sure to come back is the workspace of ops at work in other threads: they end whatever this one waits for.
    """
    mine = requests.requests[at]
    coming = [
        other
        for other in held
        if (it := requests.requests[other]).kind == "temp"
        and it.released is not None
        and it.op != mine.op
        and it.line != mine.line
    ]
    for other in coming:
        allocator.free(held.pop(other))
    return bool(coming)


def largest(fits: Callable[[int], bool], first: int) -> int:
    """The largest batch that fits, searched upwards and downwards from ``first``; 0 where none does.

    Fitting need not be monotone in the batch, since the pieces fall differently: what is returned fits, and the next
    one does not.
    """
    low, high = 0, max(first, 1)
    while high <= MOST_BATCH and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
