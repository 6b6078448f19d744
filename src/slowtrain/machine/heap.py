"""What the C library's malloc holds: in use, and free in pieces that it has not given back."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

# To count what is free malloc goes through it all, with the heap locked: microseconds, or more where it is in very many
# pieces. So what a count took decides when the next one may be made.
COST_SHARE = 0.0002


class _Figures(ctypes.Structure):
    """``struct mallinfo2`` of malloc(3), since glibc 2.33; the older one counts to 2 GiB only."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


class Heap:
    """``used_bytes`` and ``free_bytes`` of all arenas, large blocks that are mapped by themselves left out."""

    def __init__(self, count: Callable[[], _Figures], clock: Callable[[], float] = time.perf_counter) -> None:
        self._count, self._clock = count, clock
        self._due = 0.0

    def __call__(self) -> tuple[float, float] | None:
        """None where it is too early to count again, and where another allocator stands in its place."""
        begun = self._clock()
        if begun < self._due:
            return None
        told = self._count()
        self._due = begun + (self._clock() - begun) / COST_SHARE
        if not told.uordblks:
            return None
        return float(told.uordblks), float(max(told.fordblks - told.keepcost, 0))  # the end of the heap is given back


def heap() -> Heap | None:
    """Of this process; None where its C library does not tell."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    count.restype, count.argtypes = _Figures, ()
    return Heap(count)
