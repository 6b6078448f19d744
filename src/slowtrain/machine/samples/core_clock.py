"""The clock rate of the core that the main thread runs on, if the system measures it.

A virtual machine reports the nominal clock in ``/proc/cpuinfo``, whatever the processor does. That is not a
measurement.
"""

from __future__ import annotations

import os
from pathlib import Path

CPU_FOLDER = "sys/devices/system/cpu"
CLOCK_COUNTER_FLAG = (
    "aperfmperf"  # the flag of a processor that counts its cycles; /proc/cpuinfo then holds the measured clock
)
MAX_CPUINFO_CORES = 8  # up to this many cores /proc/cpuinfo is read: the kernel writes all of it each time
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)


class Clock:
    """Reads the clock in MHz. The caller that passed ``files`` closes them."""

    def __init__(self, root: Path, files: list[int]) -> None:
        """Raises ``OSError`` if the system does not report the clock."""
        self._root, self._files = root, files
        self._cores: dict[int, int] = {}
        self._all: int | None = None
        first = len(files)
        try:
            self._stat = self._opened(root / "proc/self/task" / str(os.getpid()) / "stat")
            try:
                self._of(self._core())
            except OSError:
                self._all = self._listed()
        except (OSError, ValueError, IndexError):
            while len(files) > first:
                os.close(files.pop())
            raise

    def __call__(self) -> float:
        core = self._core()
        if self._all is None:
            return int(os.pread(self._of(core), 64, 0)) / 1e3
        for part in os.pread(self._all, 1 << 16, 0).decode().split("\n\n"):
            said = dict(line.replace("\t", "").split(":", 1) for line in part.splitlines() if ":" in line)
            if said.get("processor", "").strip() == str(core):
                return float(said["cpu MHz"])
        raise LookupError(f"core {core} is not listed")

    def _core(self) -> int:
        """The field ``processor`` of proc(5). A thread's name, in parentheses, may contain any characters."""
        said = os.pread(self._stat, 512, 0)
        return int(said[said.rindex(b")") :].split()[37])

    def _of(self, core: int) -> int:
        if core not in self._cores:
            self._cores[core] = self._opened(self._root / CPU_FOLDER / f"cpu{core}" / "cpufreq/scaling_cur_freq")
        return self._cores[core]

    def _listed(self) -> int:
        file = self._opened(self._root / "proc/cpuinfo")
        text = os.pread(file, 1 << 16, 0).decode(errors="replace")
        if CLOCK_COUNTER_FLAG not in text or text.count("cpu MHz") not in range(1, MAX_CPUINFO_CORES + 1):
            raise FileNotFoundError("the clock is not measured")
        return file

    def _opened(self, path: Path) -> int:
        file = os.open(path, _FLAGS)
        self._files.append(file)
        return file
