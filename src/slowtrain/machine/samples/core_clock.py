"""The clock rate of a core, and how fast a core runs a fixed piece of work.

A virtual machine reports the nominal clock in ``/proc/cpuinfo``, whatever the processor does. That is not a
measurement. The piece of work resembles starting ops: branches, small objects, tables. The costs of a graph call and
of an op in it are known in ms from other machines (:mod:`slowtrain.trace.signals.host.host_work`). Of two of these
machines one took 1.6 times as long as the other for the same steps, traced or not.
"""

from __future__ import annotations

import json
import os
import time
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
            self._stat = self._open_file(root / "proc/self/task" / str(os.getpid()) / "stat")
            try:
                self._of(self._core())
            except OSError:
                self._all = self._open_core_list()
        except (OSError, ValueError, IndexError):
            while len(files) > first:
                os.close(files.pop())
            raise

    def __call__(self) -> float:
        core = self._core()
        if self._all is None:
            return int(os.pread(self._of(core), 64, 0)) / 1e3
        for part in os.pread(self._all, 1 << 16, 0).decode().split("\n\n"):
            fields = dict(line.replace("\t", "").split(":", 1) for line in part.splitlines() if ":" in line)
            if fields.get("processor", "").strip() == str(core):
                return float(fields["cpu MHz"])
        raise LookupError(f"core {core} is not listed")

    def _core(self) -> int:
        """The field ``processor`` of proc(5). A thread's name, in parentheses, may contain any characters."""
        text = os.pread(self._stat, 512, 0)
        return int(text[text.rindex(b")") :].split()[37])

    def _of(self, core: int) -> int:
        if core not in self._cores:
            self._cores[core] = self._open_file(self._root / CPU_FOLDER / f"cpu{core}" / "cpufreq/scaling_cur_freq")
        return self._cores[core]

    def _open_core_list(self) -> int:
        file = self._open_file(self._root / "proc/cpuinfo")
        text = os.pread(file, 1 << 16, 0).decode(errors="replace")
        if CLOCK_COUNTER_FLAG not in text or text.count("cpu MHz") not in range(1, MAX_CPUINFO_CORES + 1):
            raise FileNotFoundError("the clock is not measured")
        return file

    def _open_file(self, path: Path) -> int:
        file = os.open(path, _FLAGS)
        self._files.append(file)
        return file


PACE_REPEATS = 30  # the shortest counts, because other work on the machine only makes a run longer
WORK_TEXT = json.dumps([{"name": f"op{i}", "shape": [i, 2 * i], "kind": "op", "at": i / 7} for i in range(100)])
# The duration on the machine where those constants were measured. It is 1.6 times 54 µs (51 to 57, twelve processes),
# measured on a second machine. There nine scripts of eager steps and of traces had a median of 1/1.6 of their former
# step, and their cured versions of 1/1.65 (`recorded` of docs/results/measured.json, 2026-11-25 and 2026-11-26).
REFERENCE_NS = 86_000.0


def measure_core_pace() -> float:
    """The pace of a core relative to the reference: 2.0 is twice as fast. Takes some milliseconds."""
    return round(REFERENCE_NS / min(_time_once_ns() for _ in range(PACE_REPEATS)), 3)


def _time_once_ns() -> int:
    begun_ns = time.perf_counter_ns()
    json.loads(WORK_TEXT)
    return time.perf_counter_ns() - begun_ns
