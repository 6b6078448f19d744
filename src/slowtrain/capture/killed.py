"""Whether the kernel ended a process for want of memory: it sends the same signal as ``kill -9``, but it counts."""

from __future__ import annotations

import os
import signal
from collections import deque
from pathlib import Path

VMSTAT = Path("/proc/vmstat")  # its ``oom_kill``: of the machine and of all containers on it, since Linux 4.13
MARK = b"\noom_kill "
MOST_BYTES = 1 << 16
EVERY = 4  # calls of half a second
LOOKS = 15  # kept, half a minute: to take down a process of many gigabytes lasts for seconds


class Kills:
    """The kernel's counter, looked at while a process runs and once after its end."""

    def __init__(self) -> None:
        self._seen: deque[int | None] = deque(maxlen=LOOKS)
        self._calls = 0
        self.look()

    def look(self) -> None:
        if self._calls % EVERY == 0:
            self._seen.append(_counted())
        self._calls += 1

    def ended(self, code: int) -> bool:
        """Whether a process that ended with ``code`` (below zero: by that signal) was most likely one of them.

        A kill of another process in the same half minute, with a ``kill -9`` of ours by hand, looks the same.
        """
        if code != -signal.SIGKILL:
            return False
        before, after = self._seen[0], _counted()
        return before is not None and after is not None and after > before


def _counted() -> int | None:
    """Looked for in the bytes as they are: this is done beside the script's steps, and the file has 190 lines."""
    try:
        file = os.open(VMSTAT, os.O_RDONLY)
        try:
            data = b"\n" + os.read(file, MOST_BYTES)
        finally:
            os.close(file)
        start = data.index(MARK) + len(MARK)
        return int(data[start:].split(None, 1)[0])
    except (OSError, ValueError, IndexError):
        return None
