"""What the C library's malloc holds: bytes in use, and free bytes that it has not returned to the system."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

# Counting free bytes walks the heap with its lock held. It takes microseconds, or more if the heap is very fragmented.
# So the duration of a count decides when the next one may run.
MAX_COUNTING_SHARE = 0.0002


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of malloc(3), since glibc 2.33; the older ``mallinfo`` counts to 2 GiB only."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


class HeapReader:
    """``used_bytes`` and ``free_bytes`` of all arenas; large blocks that have their own mapping are not included."""

    def __init__(self, count: Callable[[], _MallocInfo], clock: Callable[[], float] = time.perf_counter) -> None:
        self._count, self._clock = count, clock
        self._due = 0.0

    def __call__(self) -> tuple[float, float] | None:
        """None if it is too early to count again, or if another allocator replaces malloc."""
        begun = self._clock()
        if begun < self._due:
            return None
        told = self._count()
        self._due = begun + (self._clock() - begun) / MAX_COUNTING_SHARE
        if not told.uordblks:
            return None
        # The end of the heap is returned to the system.
        return float(told.uordblks), float(max(told.fordblks - told.keepcost, 0))


def open_heap_reader() -> HeapReader | None:
    """A reader for this process; None if its C library does not report the heap."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    count.restype, count.argtypes = _MallocInfo, ()
    return HeapReader(count)
