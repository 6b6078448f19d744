"""The simulated allocator: by its rules, and by whatever sequence of requests Hypothesis thinks of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.memory.bfc_allocator import (
    FIRST_REGION_BYTES,
    MAX_WASTE_BYTES,
    REGION_GAP_BYTES,
    Allocator,
    round_up_size,
)

MIB = 1 << 20


def test_sizes_are_rounded_up_to_256_bytes() -> None:
    assert [round_up_size(n) for n in (1, 256, 257, 512)] == [256, 256, 512, 512]
    pool = Allocator(MIB, growth=False)
    pool.allocate(1)
    pool.allocate(300)
    assert pool.in_use_bytes == 256 + 512


def test_the_smallest_piece_that_is_large_enough_is_taken() -> None:
    pool = Allocator(MIB, growth=False)
    large, _, small, _ = (pool.allocate(size) for size in (8192, 256, 1024, 256))
    assert large is not None
    assert small is not None
    pool.free(large)
    pool.free(small)
    assert pool.allocate(1000) == small
    assert pool.allocate(1500) == large


def test_a_piece_is_split_only_where_the_rest_is_as_large_as_the_request() -> None:
    pool = Allocator(4096, growth=False)
    first = pool.allocate(4096)
    assert first is not None
    pool.free(first)
    pool.allocate(2304)  # of 4096: the rest would be smaller
    assert pool.in_use_bytes == 4096
    assert pool.allocate(256) is None


def test_of_a_large_piece_never_more_than_128_mib_are_wasted() -> None:
    pool = Allocator(1000 * MIB, growth=False)
    pool.allocate(600 * MIB)
    assert pool.in_use_bytes == 600 * MIB
    assert MAX_WASTE_BYTES <= 400 * MIB


def test_regions_double_and_are_never_joined() -> None:
    pool = Allocator(100 * MIB, growth=True)
    assert pool.allocate(MIB) is not None
    assert pool.pool_bytes == FIRST_REGION_BYTES
    assert pool.allocate(3 * MIB) is not None
    assert pool.allocate(6 * MIB) is not None
    assert [chunk.address // REGION_GAP_BYTES for chunk in pool.regions] == [0, 1, 2]
    assert pool.pool_bytes == (2 + 4 + 8) * MIB


def test_what_is_free_in_total_but_not_in_one_piece_does_not_do() -> None:
    pool = Allocator(4 * 1024, growth=False)
    held = [pool.allocate(1024) for _ in range(4)]
    pool.free(held[0] or 0)
    pool.free(held[2] or 0)
    assert pool.limit_bytes - pool.in_use_bytes == 2048
    assert pool.largest_free_bytes == 1024
    assert pool.allocate(2048) is None


def test_nothing_is_freed_twice() -> None:
    pool = Allocator(4096, growth=False)
    at = pool.allocate(256)
    assert at is not None
    pool.free(at)
    with pytest.raises((ValueError, KeyError)):
        pool.free(at)


requests = st.lists(st.tuples(st.integers(1, 3 * MIB), st.booleans(), st.integers(0, 1 << 30)), max_size=60)


@given(requests, st.integers(4096, 16 * MIB), st.booleans())
def test_chunks_never_overlap_and_bytes_add_up(wanted: list[tuple[int, bool, int]], limit: int, growth: bool) -> None:
    pool = Allocator(limit, growth=growth)
    held: list[int] = []
    for size, release, which in wanted:
        if release and held:
            pool.free(held.pop(which % len(held)))
        else:
            at = pool.allocate(size)
            if at is not None:
                held.append(at)
                assert at % 256 == 0
        _sound(pool, held, limit)
    for at in held:
        pool.free(at)
    assert pool.in_use_bytes == 0
    assert len(pool.chunks()) == len(pool.regions), "all that was freed is one piece again, in each region"


def _sound(pool: Allocator, held: list[int], limit: int) -> None:
    chunks = pool.chunks()
    for this, after in pairwise(chunks):
        same = this.address // REGION_GAP_BYTES == after.address // REGION_GAP_BYTES
        assert this.address + this.size_bytes == after.address if same else this.after is None
        assert not (same and not this.used and not after.used), "free neighbours are joined"
    assert sum(c.size_bytes for c in chunks) == pool.pool_bytes <= limit + 255
    assert sum(c.size_bytes for c in chunks if c.used) == pool.in_use_bytes <= pool.peak_bytes
    assert sorted(c.address for c in chunks if c.used) == sorted(held)
    assert all(c.requested_bytes <= c.size_bytes for c in chunks)
