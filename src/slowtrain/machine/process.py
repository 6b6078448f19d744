"""Which process it is, for who comes later: the number of one that has ended is given again, and clocks are set."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
STARTED = 19  # fields behind the name: when the process began, in ticks since the machine did


def born(pid: int) -> str:
    """Which start of the machine it is, and the process's own beginning since; empty where the kernel tells neither."""
    try:
        ticks = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[STARTED]
        return f"{(PROC / 'sys/kernel/random/boot_id').read_text('ascii').strip()} {int(ticks)}"
    except (OSError, ValueError, IndexError):
        return ""
