"""How the recorder's thread waits and gets the interpreter lock back.

CPython makes the owner release the lock if another thread has waited for a switch interval (five milliseconds) and
nobody released it meanwhile. A loop may release it for an instant more often than that, for example one larger NumPy
call among many small ones. Then the wait starts again each time before the thread has woken up. The thread comes
seconds late, and always at the same call, although it is there to sample the lines of such a loop. So the interval is
shorter until training begins, and for a while after the thread was late. Only threads that wait for the lock notice
that. If the script has other threads that run Python, the interval stays unchanged, because they would switch more
often, too.
"""

from __future__ import annotations

import _thread
import math
import sys
import time

MIN_LATE_NS = 100_000_000  # beyond the wait: twenty usual intervals
MIN_WORKED_SHARE = 0.5  # of that time; a process that was stopped or found no core was late for another reason
SHORT_INTERVAL_WAITS = 100  # waits on time before the usual interval is tried again
SHORT_INTERVAL_S = 0.0001
MAX_PYTHON_THREADS = 2  # threads that run Python: the script's own, and the one that waits here


class SwitchInterval:
    """Waits until ``stop`` is free. Belongs to one thread; :meth:`end` is called when it ends."""

    def __init__(self, stop: _thread.LockType) -> None:
        self._stop = stop
        self._asking = 0
        self._usual_s: float | None = None  # set while the interval is ours

    def wait(self, seconds: float, *, trains: bool) -> bool:
        """Waits for at most ``seconds``; returns whether to stop. ``trains`` says whether training has begun."""
        if (self._asking or not trains) and len(sys._current_frames()) <= MAX_PYTHON_THREADS:
            self._ask()
        else:
            self.end()
        begun_ns, worked_ns = time.perf_counter_ns(), time.process_time_ns()
        if self._stop.acquire(timeout=seconds):
            return True
        late_ns = time.perf_counter_ns() - begun_ns - seconds * 1e9
        if late_ns > MIN_LATE_NS and time.process_time_ns() - worked_ns > MIN_WORKED_SHARE * late_ns:
            self._asking = SHORT_INTERVAL_WAITS
        elif self._asking:
            self._asking -= 1
        return False

    def _ask(self) -> None:
        usual_s = sys.getswitchinterval()
        if self._usual_s is None and usual_s > SHORT_INTERVAL_S:
            self._usual_s = usual_s
            sys.setswitchinterval(SHORT_INTERVAL_S)

    def end(self) -> None:
        """Restores the interval, unless the script has set another one meanwhile."""
        if self._usual_s is not None and math.isclose(sys.getswitchinterval(), SHORT_INTERVAL_S):
            sys.setswitchinterval(self._usual_s)
        self._usual_s = None
