"""One cheap sample of what the machine does: a fraction of a millisecond on Linux.

The files of ``/proc`` stay open and are read again from their beginning, which costs a few microseconds each. psutil
opens and parses them each time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slowtrain.machine.host import cgroup_limits
from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.samples import core_clock

if sys.platform != "win32":
    import resource

Value = float | list[float] | list[float | None]
Reader = Callable[[dict[str, Value]], None]

USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL = range(8)

SAMPLE_UNITS: Mapping[str, str] = {
    "cpu_share": "busy share of each core since the last sample",
    "cpu_mean_share": "busy share of all cores since the last sample",
    "iowait_share": "share of all cores' time idle while a disk or network read was awaited, since the last sample",
    "steal_share": "share of all cores' time that the hypervisor gave to others, since the last sample",
    "run_queue": "threads running or ready to run on the machine now, without this one",
    "blocked": "threads waiting for a disk now",
    "process_cpu_seconds": "processor time of this process since it began",
    "main_cpu_seconds": "processor time of its main thread",
    "framework_cpu_seconds": "processor time of TensorFlow's executors, without the threads that make input",
    "rss_bytes": "memory of this process in RAM",
    "heap_used_bytes": "memory allocated by the C library's malloc, without large blocks",
    "heap_free_bytes": "free memory that malloc keeps between those",
    "cpu_mhz": "clock of the core that the main thread last ran on",
    "voluntary_switches": "voluntary context switches of this process, since it began",
    "involuntary_switches": "involuntary context switches of this process, since it began",
    "major_faults": "major page faults of this process, since it began",
    "read_bytes": "bytes this process read from storage since it began (from the page cache: none)",
    "write_bytes": "bytes it wrote to storage since it began",
    "read_call_bytes": "bytes it asked for in read calls since it began, cached or not",
    "available_bytes": "memory of the machine that is available without swapping",
    "cgroup_used_bytes": "memory charged to the container now, page cache included",
    "throttled_periods": "periods in which the container's quota stopped it, since it began",
    "throttled_seconds": "time for which it was stopped, since it began",
    "gpu_util_share": "for each GPU: share of the driver's last sample period with any kernel running",
    "gpu_memory_util_share": "for each GPU: share of that period with its memory being read or written",
    "gpu_memory_used_bytes": "for each GPU",
    "gpu_sm_mhz": "for each GPU: clock",
    "gpu_pcie_generation": "for each GPU: generation of its link now, which falls while the GPU is idle",
    "gpu_pcie_width": "for each GPU: lanes of its link now",
    "gpu_power_watts": "for each GPU",
    "gpu_celsius": "for each GPU",
    "gpu_throttle_bits": "for each GPU: NVML's reasons for a lower clock (gpu.throttle_reasons)",
}
"""The quantities that a sample may hold. A quantity that could not be read is absent, never zero."""


class Sampler:
    """Takes samples of the process that made it. Create it after a fork, not before.

    A source that fails once is not asked again; ``faults`` names it.
    """

    def __init__(self, root: Path = Path("/"), gpus: Gpus | None = None) -> None:
        self.faults: dict[str, str] = {}
        self._files: list[int] = []
        self._page_bytes = _page_bytes()
        self._last: list[list[int]] = []
        limits = cgroup_limits.read_limits(root)
        readers = {
            "stat": self._open(root / "proc/stat", self._stat),
            "process": self._process,
            "threads": self._thread_reader(root / "proc/self/task"),
            "statm": self._open(root / "proc/self/statm", self._parse_statm),
            "io": self._open(root / "proc/self/io", _parse_io),
            "heap": self._heap_reader(),
            "clock": self._clock(root),
            "meminfo": self._open(root / "proc/meminfo", _parse_meminfo),
            "cpu.stat": self._throttling_reader(limits),
            "memory": self._container_memory_reader(limits),
        }
        if readers["stat"] is None:
            readers["psutil"] = _PsutilReader()
        self.gpus = gpus or Gpus()
        if self.gpus.handles:
            readers["gpu"] = self._read_gpus
        self._readers: dict[str, Reader] = {name: read for name, read in readers.items() if read is not None}
        self.sample()  # so that the shares of the first sample that counts begin now

    def sample(self) -> dict[str, Value]:
        """What could be read, by the names in :data:`SAMPLE_UNITS`."""
        found: dict[str, Value] = {}
        for name, read in list(self._readers.items()):
            try:
                read(found)
            except Exception as error:  # noqa: BLE001  one source less; the others still work
                self.faults[name] = f"{type(error).__name__}: {error}"
                del self._readers[name]
        return found

    def close(self) -> None:
        """Closes the files; no sample can be taken afterwards."""
        self._readers.clear()
        while self._files:
            os.close(self._files.pop())

    def _open(self, path: Path, parse: Callable[[dict[str, Value], bytes], None]) -> Reader | None:
        """A reader of the whole file at ``path``, or None if there is no such file."""
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return None
        self._files.append(file)
        room = 1 << 14

        def read_file(found: dict[str, Value]) -> None:
            nonlocal room
            data = os.pread(file, room, 0)
            while len(data) == room:  # /proc/stat is long on machines with many cores
                room *= 4
                data = os.pread(file, room, 0)
            parse(found, data)

        return read_file

    def _stat(self, found: dict[str, Value], data: bytes) -> None:
        head = data[: data.find(b"\nintr")].split(b"\n")
        times = [[int(ticks) for ticks in line.split()[1:9]] for line in head if line[:3] == b"cpu"]
        last, self._last = self._last, times
        if len(last) == len(times):
            spent = [[now - then for now, then in zip(a, b, strict=False)] for a, b in zip(times, last, strict=True)]
            whole = max(sum(spent[0]), 0)
            if whole:
                found["cpu_share"] = [_busy_share(core) for core in spent[1:]]
                found["cpu_mean_share"] = _busy_share(spent[0])
                found["iowait_share"] = max(spent[0][IOWAIT], 0) / whole
                found["steal_share"] = max(spent[0][STEAL], 0) / whole
        tail = data[data.rfind(b"procs_running") :].split()
        if len(tail) >= 4 and tail[0] == b"procs_running":
            found["run_queue"] = max(float(tail[1]) - 1, 0.0)
            found["blocked"] = float(tail[3])

    def _process(self, found: dict[str, Value]) -> None:
        found["process_cpu_seconds"] = time.process_time()
        if sys.platform == "win32":
            return
        use = resource.getrusage(resource.RUSAGE_SELF)
        found["voluntary_switches"] = float(use.ru_nvcsw)
        found["involuntary_switches"] = float(use.ru_nivcsw)
        found["major_faults"] = float(use.ru_majflt)

    def _thread_reader(self, tasks: Path) -> Reader | None:
        try:
            return _ThreadTimes(tasks, self._files)
        except OSError:
            return None  # no such system, or not one of ours

    def _parse_statm(self, found: dict[str, Value], data: bytes) -> None:
        found["rss_bytes"] = float(int(data.split(None, 2)[1]) * self._page_bytes)

    def _heap_reader(self) -> Reader | None:
        counted = open_heap_reader()
        if counted is None:
            return None

        def read_heap(found: dict[str, Value]) -> None:
            used_and_free = counted()
            if used_and_free is not None:
                found["heap_used_bytes"], found["heap_free_bytes"] = used_and_free

        return read_heap

    def _clock(self, root: Path) -> Reader | None:
        try:
            clock = core_clock.Clock(root, self._files)
        except (OSError, ValueError, IndexError):
            return None

        def read_clock(found: dict[str, Value]) -> None:
            found["cpu_mhz"] = clock()

        return read_clock

    def _throttling_reader(self, limits: cgroup_limits.Limits) -> Reader | None:
        """Throttling, read only if there is a quota."""
        if limits.cpu_folder is None or limits.cpu_quota_cores is None:
            return None
        folder = limits.cpu_folder
        return lambda found: found.update(cgroup_limits.read_throttling(folder))

    def _container_memory_reader(self, limits: cgroup_limits.Limits) -> Reader | None:
        """The container's memory, read only if there is a limit."""
        if limits.memory_folder is None or limits.memory_limit_bytes is None:
            return None
        for name in ("memory.current", "memory.usage_in_bytes"):
            reader = self._open(limits.memory_folder / name, _parse_charged_memory)
            if reader is not None:
                return reader
        return None

    def _read_gpus(self, found: dict[str, Value]) -> None:
        found.update(self.gpus.sample())


class _PsutilReader:
    """The figures from psutil, for systems without ``/proc``."""

    def __init__(self) -> None:
        import psutil

        self.psutil = psutil
        self.process = psutil.Process()

    def __call__(self, found: dict[str, Value]) -> None:
        shares = [share / 100 for share in self.psutil.cpu_percent(percpu=True)]
        found["cpu_share"] = shares
        found["cpu_mean_share"] = sum(shares) / max(len(shares), 1)
        found["rss_bytes"] = float(self.process.memory_info().rss)
        found["available_bytes"] = float(self.psutil.virtual_memory().available)


# TensorFlow names the threads of its executors (tf_Compute, tf_numa_-1_Eigen, tf_gpu_private …). Threads of tf.data
# keep the process's name. Seen with 2.15 and 2.21.
EXECUTOR_THREAD_PREFIX = b"tf_"
THREAD_LISTING_INTERVAL_S = 2.0  # between two listings of threads: there may be hundreds, of which few count


class _ThreadTimes:
    """Processor time of the main thread and of the framework's executors.

    Only their files are kept open and read, because every system call releases the GIL and waits for it again.
    """

    def __init__(self, tasks: Path, files: list[int]) -> None:
        self.tasks, self._files = tasks, files
        self._known: set[str] = set()
        self._executors: dict[int, int] = {}  # file -> ticks at its last reading; an ended thread keeps its value
        self._main = self._open_stat(str(os.getpid()))
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._due = 0.0

    def __call__(self, found: dict[str, Value]) -> None:
        if time.perf_counter() >= self._due:
            self._due = time.perf_counter() + THREAD_LISTING_INTERVAL_S
            self._look()
        found["main_cpu_seconds"] = _processor_ticks(os.pread(self._main, 512, 0)) / self._ticks
        for file in list(self._executors):
            with contextlib.suppress(OSError):  # the thread has ended
                self._executors[file] = _processor_ticks(os.pread(file, 512, 0))
        found["framework_cpu_seconds"] = sum(self._executors.values()) / self._ticks

    def _look(self) -> None:
        for thread in set(os.listdir(self.tasks)) - self._known:
            self._known.add(thread)
            with contextlib.suppress(OSError):
                file = self._open_stat(thread)
                text = os.pread(file, 512, 0)
                if text[text.index(b"(") + 1 :].startswith(EXECUTOR_THREAD_PREFIX):
                    self._executors[file] = 0
                elif file != self._main:
                    self._files.remove(file)
                    os.close(file)

    def _open_stat(self, thread: str) -> int:
        file = os.open(self.tasks / thread / "stat", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self._files.append(file)
        return file


def _processor_ticks(text: bytes) -> int:
    """The fields utime and stime of proc(5). A thread's name, in parentheses, may contain any characters."""
    return sum(int(n) for n in text[text.rindex(b")") :].split()[12:14])


def _busy_share(spent: list[int]) -> float:
    """The busy share of a stretch of a core's time. Idle time and waiting for a disk are not busy."""
    whole = sum(spent)
    idle = spent[IDLE] + spent[IOWAIT]
    return min(max(1 - idle / whole, 0.0), 1.0) if whole > 0 else 0.0


def _parse_io(found: dict[str, Value], data: bytes) -> None:
    fields = dict(line.split(b": ") for line in data.splitlines())
    found["read_bytes"] = float(fields[b"read_bytes"])
    found["write_bytes"] = float(fields[b"write_bytes"])
    found["read_call_bytes"] = float(fields[b"rchar"])


def _parse_meminfo(found: dict[str, Value], data: bytes) -> None:
    at = data.index(b"MemAvailable:")
    found["available_bytes"] = float(int(data[at + 13 : data.index(b"kB", at)]) * 1024)


def _parse_charged_memory(found: dict[str, Value], data: bytes) -> None:
    found["cgroup_used_bytes"] = float(data)


def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


# Counting free bytes walks the heap with its lock held. It takes microseconds, or more if the heap is very fragmented.
# So the duration of a count decides when the next one may run.
MAX_COUNTING_SHARE = 0.0002


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of malloc(3), since glibc 2.33; the older ``mallinfo`` counts to 2 GiB only."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


class HeapReader:
    """``used_bytes`` and ``free_bytes`` of all arenas; large blocks that have their own mapping are not included."""

    def __init__(self, count: Callable[[], _MallocInfo], clock: Callable[[], float] = time.perf_counter) -> None:
        self._count, self._clock = count, clock
        self._due = 0.0

    def __call__(self) -> tuple[float, float] | None:
        """None if it is too early to count again, or if another allocator replaces malloc."""
        begun = self._clock()
        if begun < self._due:
            return None
        counts = self._count()
        self._due = begun + (self._clock() - begun) / MAX_COUNTING_SHARE
        if not counts.uordblks:
            return None
        # The end of the heap is returned to the system.
        return float(counts.uordblks), float(max(counts.fordblks - counts.keepcost, 0))


def open_heap_reader() -> HeapReader | None:
    """A reader for this process; None if its C library does not report the heap."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    count.restype, count.argtypes = _MallocInfo, ()
    return HeapReader(count)
