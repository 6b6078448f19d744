"""Whether a run at a given batch fits a card: replays its requests in the simulated allocator."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from slowtrain.memory.batch_scaling import ScaledRequests
from slowtrain.memory.bfc_allocator import Allocator

MAX_REPLAYED_BATCH = 1 << 24


@dataclass(frozen=True)
class MemoryPool:
    """The available memory, and whether it comes in regions on demand or all at once."""

    limit_bytes: int
    growth: bool


@dataclass(frozen=True)
class ReplayOutcome:
    """``at_peak``: requests that were held at the peak. ``failed``: the request that did not fit."""

    fits: bool
    peak_bytes: int
    pool_bytes: int
    at_peak: tuple[int, ...]
    failed: int | None
    free_bytes: int  # in total, at the failure
    largest_free_bytes: int


def replay_requests(requests: ScaledRequests, batch: int, pool: MemoryPool, *, holders: bool = False) -> ReplayOutcome:
    """Replays the requests. ``holders``: also records what was held at the peak, which takes longer."""
    allocator = Allocator(pool.limit_bytes, growth=pool.growth)
    sizes = requests.sizes(batch)
    held: dict[int, int] = {}
    at_peak: tuple[int, ...] = ()
    before = requests.measured.record.before_bytes
    failed = -1 if before and allocator.allocate(before) is None else None
    threads: _ThreadOrder | None = None
    for place, (at, taken) in enumerate(requests.order if failed is None else ()):
        if not taken:
            if at in held:
                allocator.free(held.pop(at))
            continue
        peak = allocator.peak_bytes
        address = allocator.allocate(sizes[at])
        if address is None:
            threads = threads or _ThreadOrder(requests)
            for other in threads.awaited_releases(place, held):
                allocator.free(held.pop(other))
            address = allocator.allocate(sizes[at])
        if address is None:
            failed = at
            break
        held[at] = address
        if holders and allocator.peak_bytes > peak:
            at_peak = tuple(held)
    return ReplayOutcome(
        failed is None,
        allocator.peak_bytes,
        allocator.pool_bytes,
        at_peak,
        failed,
        allocator.limit_bytes - allocator.in_use_bytes,
        allocator.largest_free_bytes,
    )


class _ThreadOrder:
    """The order of each thread's requests and releases: a request that fails waits until others release memory.

    TensorFlow lets it wait at most ten seconds. Certain to be released is only what the ops that other threads are
    executing will release, because those end in any case: their workspace, and inputs that no other op still has to
    read. What those threads would do next may depend on the waiting op, and is not counted.
    """

    def __init__(self, requests: ScaledRequests) -> None:
        self.requests = requests.requests
        self.order = requests.order
        self.readers = requests.measured.record.readers
        self.of_thread: dict[str, list[int]] = {}
        self.of_op: dict[str, list[int]] = {}
        self.taken = {at: place for place, (at, taken) in enumerate(self.order) if taken}
        for place, (at, taken) in enumerate(self.order):
            request = self.requests[at]
            self.of_thread.setdefault(request.line if taken else request.released_by, []).append(place)
            if taken:
                self.of_op.setdefault(request.op, []).append(place)

    def awaited_releases(self, place: int, held: Container[int]) -> list[int]:
        """The requests that other threads release if the request at ``place`` waits."""
        mine = self.requests[self.order[place][0]]
        found: list[int] = []
        for line, places in self.of_thread.items():
            next_at = bisect_left(places, place)
            working = self._current_op(places[:next_at], held)
            if line == mine.line or working in (None, mine.op):
                continue
            for later in places[next_at:]:
                at, taken = self.order[later]
                if taken:
                    break
                if at in held and (self.requests[at].kind == "temp" or self._read(at, place, working, mine.op)):
                    found.append(at)
        return found

    def _current_op(self, past: Sequence[int], held: Container[int]) -> str | None:
        """The op that a thread is executing: it requested memory and has released none since, or it holds workspace."""
        for place in reversed(past):
            at, taken = self.order[place]
            request = self.requests[at]
            if taken and at in held:
                return request.op if place == past[-1] or request.kind == "temp" else None
        return None

    def _read(self, at: int, place: int, working: str, waiting: str) -> bool:
        """Whether every reader of a request has begun at ``place``, and none of them waits."""
        readers = self._requesting_readers(self.requests[at].op)
        if not readers or (waiting in readers and waiting != working):
            return False
        return all(reader == working or self._begun(reader, self.taken[at], place) for reader in readers)

    def _begun(self, op: str, after: int, before: int) -> bool:
        places = self.of_op[op]
        first = bisect_right(places, after)
        return first < len(places) and places[first] < before

    def _requesting_readers(self, op: str) -> set[str]:
        """The readers of an op's result that request memory themselves; other readers pass their input on."""
        found: set[str] = set()
        seen = {op}
        todo = [op]
        while todo:
            for reader in self.readers.get(todo.pop(), ()):
                if reader in self.of_op:
                    found.add(reader)
                elif reader not in seen:
                    seen.add(reader)
                    todo.append(reader)
        return found


def largest_fitting_batch(fits: Callable[[int], bool], first: int) -> int:
    """The largest batch that fits, searched upwards and downwards from ``first``; 0 if none does.

    Fitting need not be monotone in the batch, because pieces fall differently. The returned batch fits, the next one
    does not.
    """
    low, high = 0, max(first, 1)
    while high <= MAX_REPLAYED_BATCH and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
