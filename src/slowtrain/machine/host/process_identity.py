"""Identifies a process beyond its number, because process numbers are reused and clocks are set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PROC_FOLDER = Path("/proc")
START_TICKS_FIELD = 19  # fields after the name: the process's start in ticks since boot


def process_birth(pid: int) -> str:
    """The boot id and the process's start since boot; empty if the kernel reports neither."""
    try:
        ticks = (PROC_FOLDER / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[START_TICKS_FIELD]
        return f"{(PROC_FOLDER / 'sys/kernel/random/boot_id').read_text('ascii').strip()} {int(ticks)}"
    except (OSError, ValueError, IndexError):
        return ""


def folders_being_written(name: str) -> dict[Path, int]:
    """Folders in which a process of this user has a file of that name open for writing, with the process id.

    The kernel's list of open files needs no lock file that could be left behind. Linux only; empty elsewhere.
    """
    found: dict[Path, int] = {}
    for process in sorted(PROC_FOLDER.glob("[0-9]*"), key=lambda p: int(p.name) if p.name.isdigit() else 0):
        for file in _open_files(process, name):
            found.setdefault(file.parent, int(process.name))  # keep the first: a forked worker came later
    return found


def _open_files(process: Path, name: str) -> Iterator[Path]:
    try:
        if process.stat().st_uid != os.getuid():
            return
        for number in os.listdir(process / "fd"):
            file = os.readlink(process / "fd" / number)
            if file.rpartition("/")[2] == name and _is_open_for_writing(process / "fdinfo" / number):
                yield Path(file)
    except (OSError, ValueError):  # the process has ended, or closed the file
        return


def _is_open_for_writing(about: Path) -> bool:
    """Reads ``flags: 02100002``, an octal number, as in proc(5)."""
    said = dict(line.split(":", 1) for line in about.read_text("ascii").splitlines() if ":" in line)
    return int(said.get("flags", "0"), 8) & (os.O_WRONLY | os.O_RDWR) != 0
