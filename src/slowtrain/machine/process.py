"""Which process it is, for who comes later: the number of one that has ended is given again, and clocks are set."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


def writing(name: str) -> dict[Path, int]:
    """Folders in which this user's processes have a file of that name open to write, each with the process's number.

    What the kernel says of open files needs no note that somebody would have to take away again. Linux only: elsewhere
    there are none.
    """
    found: dict[Path, int] = {}
    for process in sorted(PROC.glob("[0-9]*"), key=lambda p: int(p.name) if p.name.isdigit() else 0):
        for file in _open_files(process, name):
            found.setdefault(file.parent, int(process.name))  # not a worker that it forked, which came later
    return found


def _open_files(process: Path, name: str) -> Iterator[Path]:
    try:
        if process.stat().st_uid != os.getuid():
            return
        for number in os.listdir(process / "fd"):
            file = os.readlink(process / "fd" / number)
            if file.rpartition("/")[2] == name and _writable(process / "fdinfo" / number):
                yield Path(file)
    except (OSError, ValueError):  # it has ended, or closed the file
        return


def _writable(about: Path) -> bool:
    """``flags: 02100002``, in octal, as proc(5) has it."""
    said = dict(line.split(":", 1) for line in about.read_text("ascii").splitlines() if ":" in line)
    return int(said.get("flags", "0"), 8) & (os.O_WRONLY | os.O_RDWR) != 0
