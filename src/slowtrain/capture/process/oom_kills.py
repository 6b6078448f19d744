"""Detects whether the kernel ended a process because memory ran out.

The kernel sends the same signal as ``kill -9``, but it counts these kills.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from pathlib import Path

VMSTAT_FILE = Path("/proc/vmstat")  # its ``oom_kill`` counts for the machine and all its containers, since Linux 4.13
OOM_KILL_KEY = b"\noom_kill "
MAX_VMSTAT_BYTES = 1 << 16
CALLS_A_LOOK = 4  # calls of half a second
KEPT_LOOKS = 15  # kept for half a minute, because ending a process of many gigabytes takes seconds


class OomKillCounter:
    """Reads the kernel's counter while a process runs and once after its end."""

    def __init__(self) -> None:
        self._seen: deque[int | None] = deque(maxlen=KEPT_LOOKS)
        self._calls = 0
        self.look()

    def look(self) -> None:
        if self._calls % CALLS_A_LOOK == 0:
            self._seen.append(_read_oom_kills())
        self._calls += 1

    def ended(self, code: int) -> bool:
        """Returns whether the kernel most likely ended a process with exit code ``code`` (below zero: signal) for lack
        of memory.

        A kill of another process in the same half minute, together with a ``kill -9`` of this one, looks the same.
        """
        if code != -signal.SIGKILL:
            return False
        before, after = self._seen[0], _read_oom_kills()
        return before is not None and after is not None and after > before


def _read_oom_kills() -> int | None:
    """Returns the counter, or None.

    Searches the raw bytes, because this runs beside the script's steps and the file has 190 lines.
    """
    try:
        file = os.open(VMSTAT_FILE, os.O_RDONLY)
        try:
            data = b"\n" + os.read(file, MAX_VMSTAT_BYTES)
        finally:
            os.close(file)
        start = data.index(OOM_KILL_KEY) + len(OOM_KILL_KEY)
        return int(data[start:].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return None
