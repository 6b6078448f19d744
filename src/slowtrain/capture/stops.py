"""Whether the process was stopped while the recorder's thread waited: SIGSTOP, Ctrl-Z, a debugger, a frozen container.

A thread that waits for the interpreter's lock is late as well, behind C code that holds it. But it wakes up each
switch interval (five milliseconds) to ask for the lock, and whoever works uses the processor meanwhile. In a stopped
process nothing of that happens, and only the clock of the machine goes on.
"""

from __future__ import annotations

import sys
import time

LEAST_NS = 500_000_000  # beyond the wait that was asked for: a crowded machine wakes nobody up on time
MOST_STOPS = 20  # noted in one recording; what else is kept of each is kept for ever
WORKED = 0.1  # of the time: a process that used so much of a processor was not stopped
LEAST_TURNS = 20.0  # wake-ups that waiting for the lock would have made: with fewer the two look the same
WOKE = 0.25  # of those: as many, and the thread did run


class Stops:
    """Asked before and after each wait of the recorder's thread, in that thread."""

    def __init__(self) -> None:
        self._left = MOST_STOPS
        self._before = (0, 0, 0)

    def waits(self) -> None:
        """The thread is about to wait."""
        if self._left:
            self._before = _clocks()

    def waited(self, asked_s: float) -> tuple[int, int] | None:
        """From when to when the process was surely stopped, of a wait of ``asked_s`` that is over, in ns; or None."""
        if not self._left:
            return None
        (begun, worked, turns), (end, worked_now, turns_now) = self._before, _clocks()
        since = begun + int(asked_s * 1e9)
        late = end - since
        if late < LEAST_NS or turns < 0:
            return None
        each = late / 1e9 / max(sys.getswitchinterval(), 1e-6)
        if each < LEAST_TURNS or turns_now - turns > WOKE * each or worked_now - worked > WORKED * late:
            return None
        self._left -= 1
        return since, end


def _clocks() -> tuple[int, int, int]:
    """The machine's clock and the process's own, in ns; how often this thread gave up the processor, -1: not told."""
    return time.perf_counter_ns(), time.process_time_ns(), _turns()


try:
    import resource

    _THREAD = resource.RUSAGE_THREAD  # Linux

    def _turns() -> int:
        return resource.getrusage(_THREAD).ru_nvcsw

except (ImportError, AttributeError):

    def _turns() -> int:
        return -1
