"""Detects that the process was stopped while the recorder's thread waited: SIGSTOP, Ctrl-Z, debugger, frozen container.

A thread that waits for the interpreter lock behind C code is late, too. But it wakes up each switch interval (five
milliseconds) to request the lock, and the thread that holds it uses the processor. In a stopped process neither
happens, and only the clock of the machine advances.
"""

from __future__ import annotations

import sys
import time

MIN_STOP_NS = 500_000_000  # late beyond the requested wait; a crowded machine wakes no thread on time
MAX_STOPS = 20  # noted in one recording, because the stretches around each are never thinned
MAX_WORKED_SHARE = 0.1  # of the time; a process that used more of a processor was not stopped
MIN_LOCK_WAKE_UPS = 20.0  # wake-ups that waiting for the lock would have made; with fewer the two cases look the same
MAX_WAKE_UP_SHARE = 0.25  # of those; with more the thread did run


class StopDetector:
    """Detects stops. Called before and after each wait of the recorder's thread, in that thread."""

    def __init__(self) -> None:
        self._left = MAX_STOPS
        self._before = (0, 0, 0)

    def waits(self) -> None:
        """Notes that the thread is about to wait."""
        if self._left:
            self._before = _read_clocks()

    def stop_during_wait(self, asked_s: float) -> tuple[int, int] | None:
        """Returns start and end (ns) of the time in which the process was certainly stopped during a wait, or None.

        ``asked_s`` is the requested duration of the wait.
        """
        if not self._left:
            return None
        (begun, worked, turns), (end, worked_now, turns_now) = self._before, _read_clocks()
        since = begun + int(asked_s * 1e9)
        late = end - since
        if late < MIN_STOP_NS or turns < 0:
            return None
        each = late / 1e9 / max(sys.getswitchinterval(), 1e-6)
        if (
            each < MIN_LOCK_WAKE_UPS
            or turns_now - turns > MAX_WAKE_UP_SHARE * each
            or worked_now - worked > MAX_WORKED_SHARE * late
        ):
            return None
        self._left -= 1
        return since, end


def _read_clocks() -> tuple[int, int, int]:
    """Returns wall time (ns), processor time (ns), and how often this thread gave up the processor (-1: not known)."""
    return time.perf_counter_ns(), time.process_time_ns(), _voluntary_switches()


try:
    import resource

    _THREAD_USAGE = resource.RUSAGE_THREAD  # Linux

    def _voluntary_switches() -> int:
        return resource.getrusage(_THREAD_USAGE).ru_nvcsw

except (ImportError, AttributeError):

    def _voluntary_switches() -> int:
        return -1
