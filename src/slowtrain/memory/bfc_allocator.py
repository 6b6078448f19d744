"""A simulation of TensorFlow's allocator (best fit with coalescing): whether a sequence of requests fits a limit.

The rules are those of ``bfc_allocator.cc`` (TensorFlow 2.15 to 2.21). Sizes are rounded up to 256 bytes. The smallest
free piece that is large enough is used, of several the one with the lowest address. It is split if the rest would be as
large as the request, or 128 MiB. A freed piece is joined with its free neighbours. The real bins of powers of two only
speed up the search for the smallest piece; a sorted list finds the same one.

With ``growth`` memory comes in regions, each twice as large as the last, which are never joined. The CPU's allocator
works so, and a GPU's with ``set_memory_growth``. Without it a single region is the whole card.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

ROUNDING_BYTES = 256
FIRST_REGION_BYTES = 2 << 20
MAX_WASTE_BYTES = 128 << 20
REGION_GAP_BYTES = 1 << 44  # between the addresses of two regions, so that they are not neighbours


def round_up_size(size_bytes: int) -> int:
    return -(-size_bytes // ROUNDING_BYTES) * ROUNDING_BYTES


@dataclass
class Chunk:
    """A piece of a region, linked with its neighbours by address."""

    address: int
    size_bytes: int
    used: bool = False
    requested_bytes: int = 0
    before: Chunk | None = None
    after: Chunk | None = None


class Allocator:
    """One pool of memory. ``in_use_bytes`` counts whole chunks, as TensorFlow's statistics do."""

    def __init__(self, limit_bytes: int, *, growth: bool) -> None:
        self.limit_bytes = limit_bytes
        self.in_use_bytes = 0
        self.peak_bytes = 0
        self.pool_bytes = 0
        self.regions: list[Chunk] = []  # the first chunk of each region
        self._next_region_bytes = round_up_size(min(limit_bytes, FIRST_REGION_BYTES) if growth else limit_bytes)
        self._free: list[tuple[int, int]] = []  # (size, address)
        self._chunks: dict[int, Chunk] = {}

    def allocate(self, size_bytes: int) -> int | None:
        """The address; None if no free piece is large enough, which TensorFlow reports as exhaustion."""
        wanted = round_up_size(max(size_bytes, 1))
        chunk = self._best_fit(wanted)
        if chunk is None and self._extend(wanted):
            chunk = self._best_fit(wanted)
        if chunk is None:
            return None
        if chunk.size_bytes >= 2 * wanted or chunk.size_bytes - wanted >= MAX_WASTE_BYTES:
            self._split_chunk(chunk, wanted)
        chunk.used, chunk.requested_bytes = True, size_bytes
        self.in_use_bytes += chunk.size_bytes
        self.peak_bytes = max(self.peak_bytes, self.in_use_bytes)
        return chunk.address

    def free(self, address: int) -> None:
        chunk = self._chunks[address]
        if not chunk.used:
            raise ValueError(f"nothing is in use at {address}")
        chunk.used, chunk.requested_bytes = False, 0
        self.in_use_bytes -= chunk.size_bytes
        if chunk.after is not None and not chunk.after.used:
            self._forget(chunk.after)
            chunk = self._join_chunks(chunk, chunk.after)
        if chunk.before is not None and not chunk.before.used:
            self._forget(chunk.before)
            chunk = self._join_chunks(chunk.before, chunk)
        insort(self._free, (chunk.size_bytes, chunk.address))

    @property
    def largest_free_bytes(self) -> int:
        """The largest single request that would succeed now."""
        return max(self._free[-1][0] if self._free else 0, self._remaining_bytes())

    def chunks(self) -> list[Chunk]:
        """All chunks, by address."""
        return [self._chunks[a] for a in sorted(self._chunks)]

    def _remaining_bytes(self) -> int:
        return (self.limit_bytes - self.pool_bytes) // ROUNDING_BYTES * ROUNDING_BYTES

    def _best_fit(self, wanted: int) -> Chunk | None:
        at = bisect_left(self._free, (wanted, 0))
        return self._chunks[self._free.pop(at)[1]] if at < len(self._free) else None

    def _extend(self, wanted: int) -> bool:
        available = self._remaining_bytes()
        if wanted > available:
            return False
        grown = False
        while wanted > self._next_region_bytes:
            self._next_region_bytes *= 2
            grown = True
        size = min(self._next_region_bytes, available)
        if not grown:
            self._next_region_bytes *= 2
        chunk = Chunk(len(self.regions) * REGION_GAP_BYTES, size)
        self.pool_bytes += size
        self.regions.append(chunk)
        self._chunks[chunk.address] = chunk
        insort(self._free, (size, chunk.address))
        return True

    def _split_chunk(self, chunk: Chunk, wanted: int) -> None:
        rest = Chunk(chunk.address + wanted, chunk.size_bytes - wanted, before=chunk, after=chunk.after)
        if chunk.after is not None:
            chunk.after.before = rest
        chunk.after, chunk.size_bytes = rest, wanted
        self._chunks[rest.address] = rest
        insort(self._free, (rest.size_bytes, rest.address))

    def _join_chunks(self, first: Chunk, second: Chunk) -> Chunk:
        first.size_bytes += second.size_bytes
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        del self._chunks[second.address]
        return first

    def _forget(self, chunk: Chunk) -> None:
        del self._free[bisect_left(self._free, (chunk.size_bytes, chunk.address))]
