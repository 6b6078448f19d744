"""Watches what grows during training: memory, and the containers that the user's names lead to.

All looks are cheap and run in the recorder's thread. The process's memory is read often at first and ever more rarely,
as a share of the elapsed time. Containers are counted by a walk from the user's names
(:mod:`slowtrain.capture.growth.named_containers`). Walks may take ``MAX_WALK_SHARE`` of the wall time plus a few
milliseconds, so the cost of a walk decides when the next one may start. Graphs that code without functions builds are
asked for their number of ops.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.growth import named_containers
from slowtrain.capture.growth.object_growth import ObjectGrowthWatch
from slowtrain.capture.jax import keras_backend as on_jax
from slowtrain.capture.tensorflow import session_patches

MAX_WALK_SHARE = 0.0005  # of wall time, for walks
FIRST_WALKS_NS = 4_000_000  # processor time for the first walks, so that a run of a second shows what grows
# added once memory has grown as if something were kept, so that leaks of short runs are named, too
EXTRA_WALKS_NS = 8_000_000
MIN_SAMPLE_PERIOD_NS = 100_000_000  # between two readings of memory, in the first half minute
SAMPLE_PERIOD_SHARE = (
    1 / 300
)  # of the time since the first step, between two readings of memory: few, however long the run
WALK_PERIOD_SHARE = 1 / 10  # the same between two walks
MIN_GROWN_WALKS = 3  # walks that found a container longer than the walk before, until it is recorded
MIN_LENGTH = 16
MIN_BIG_ELEMENT_BYTES = (
    512 << 10
)  # of one element; fewer smaller ones than ``MIN_LENGTH`` would not be reported as a leak
MAX_KEPT_LENGTHS = 16
MAX_KNOWN_CONTAINERS = 5000  # containers whose length is remembered
MAX_NAMED_CONTAINERS = 40  # containers that are recorded
MIN_SUSPECT_SHARE = 0.02  # growth of memory since the first step, above which local variables are read, too
MIN_SUSPECT_BYTES = 16 << 20
MAX_DEVICES = 4
MIN_EXPLAINED_SHARE = 0.5  # of memory's growth by containers; then objects are not counted by type

MEMORY_LANE, CONTAINER_LANE = "memory", "held"


@dataclass
class _ContainerHistory:
    """A container's length, and when it was found longer than before, until that is recorded.

    ``since``: time (ns) and length when first seen; ``moved``: time of the last increase; ``last``: time when last
    seen; ``each``: bytes of an element, once it is recorded.
    """

    length: int
    seen: list[tuple[int, int]]
    name: int = 0
    small: bool = False  # its elements are small: it counts only from ``MIN_LENGTH`` on
    since: tuple[int, int] = (0, 0)
    moved: int = 0
    last: int = 0
    each: float = 0.0

    @property
    def rate(self) -> float:
        """Bytes a nanosecond since first seen; infinite if the size of its elements is not known.

        0 if it has not grown during the last half of that time.
        """
        grown, seen = self.length - self.since[1], self.last - self.since[0]
        return grown * self.each / seen if self.name and grown > 0 and self.last - self.moved < seen / 2 else 0.0


class GrowthWatch:
    """Called every few ticks of the recorder's thread. Does nothing before the first step."""

    def __init__(self, recorder: Recorder, progress: Progress, objects: ObjectGrowthWatch | None = None) -> None:
        self.recorder = recorder
        self.progress = progress
        self.objects = objects
        self.walks = 0
        self._suspecting = 0  # walks since memory has grown
        self.spent_ns = 0
        self._read = _resident_bytes_reader()
        self._devices: list[tuple[str, Callable[[], dict[str, int]]]] | None = None
        self._made_ns = now()
        self._begun_ns = 0
        self._walk_due_ns = 0
        self._graphs_due_ns = 0
        self._memory_due_ns = 0
        self._first_bytes = 0
        self._bytes = 0
        self._known: dict[str, _ContainerHistory] = {}
        self._named = 0

    def __call__(self) -> None:
        at = now()
        if not self._begun_ns:
            if not self.progress.steps:
                return
            self._begun_ns = at
        if at >= self._memory_due_ns:
            self._memory_due_ns = at + max(int((at - self._begun_ns) * SAMPLE_PERIOD_SHARE), MIN_SAMPLE_PERIOD_NS)
            self.recorder.guard("memory", self._sample)
        if at >= self._walk_due_ns and self.spent_ns <= self._allowed_ns(at):
            self._walk_due_ns = at + int((at - self._begun_ns) * WALK_PERIOD_SHARE)
            self.recorder.guard("growth", self._walk)
        if at >= self._graphs_due_ns:
            self._graphs_due_ns = at + int((at - self._begun_ns) * WALK_PERIOD_SHARE)
            self.recorder.guard("graphs", self._count, at)
        if self.objects is not None:
            self.objects.wait(at)

    def _allowed_ns(self, at: int) -> float:
        return FIRST_WALKS_NS + (EXTRA_WALKS_NS if self._is_suspicious else 0) + MAX_WALK_SHARE * (at - self._made_ns)

    # -- memory

    def _sample(self) -> None:
        recorder = self.recorder
        if self._read is not None:
            self._bytes = self._read()
            self._first_bytes = self._first_bytes or self._bytes
            at = now()
            recorder.span(recorder.name(MEMORY_LANE, "anonymous"), at, at, self._bytes)
            if self.objects is not None:
                recorder.guard("objects", self.objects.handle_reading, at, self._bytes, self._is_unexplained)
        if self._devices is None:
            self._devices = recorder.guard("devices", self._gpus) or []
        for device, read_counts in self._devices:
            for what, count in read_counts().items():
                at = now()
                recorder.span(recorder.name(MEMORY_LANE, f"{what}{device}"), at, at, count)

    def _gpus(self) -> list[tuple[str, Callable[[], dict[str, int]]]]:
        """Returns memory readers for the GPUs that the framework uses.

        Steps were taken, so this initialises nothing.
        """
        readers = on_jax.gpu_memory_readers() if on_jax.active_jax() is not None else _tensorflow_memory_readers()
        return [(f"GPU:{i}", read) for i, read in enumerate(readers[:MAX_DEVICES])]

    @property
    def _is_suspicious(self) -> bool:
        """Whether memory has grown enough to justify the cost of reading local variables.

        Before Python 3.13 reading a function's variables copies them, and the copy lives until the next read.
        """
        return self._bytes - self._first_bytes > max(MIN_SUSPECT_BYTES, MIN_SUSPECT_SHARE * self._first_bytes)

    def _is_unexplained(self, rate: float) -> bool:
        """Returns whether enough walks explain less than half of a growth of ``rate`` bytes a nanosecond."""
        explained = sum(row.rate for row in self._known.values())
        return self._suspecting > MIN_GROWN_WALKS and explained < MIN_EXPLAINED_SHARE * rate

    # -- containers

    def _walk(self) -> None:
        begun, at = time.thread_time_ns(), now()
        try:
            for found in named_containers.walk_containers(local=sys.version_info >= (3, 13) or self._is_suspicious):
                self._note(found, at)
        finally:
            self.walks += 1
            self._suspecting += self._is_suspicious
            self.spent_ns += max(time.thread_time_ns() - begun, 1)
            self.recorder.fact("growth", {"walks": self.walks, "cpu_s": self.spent_ns / 1e9, "due_s": self._wall_s(at)})

    def _count(self, at: int) -> None:
        """Notes the number of ops of graphs, which costs next to nothing compared with a walk."""
        for name, graph, ops in session_patches.graph_op_counts():
            self._note(
                named_containers.NamedContainer(
                    name, ops, functools.partial(session_patches.describe_growing_graph, graph)
                ),
                at,
            )

    def _wall_s(self, at: int) -> float:
        return (at - self._begun_ns) / 1e9

    def _note(self, found: named_containers.NamedContainer, at: int) -> None:
        row = self._known.get(found.path)
        if row is None:
            if len(self._known) < MAX_KNOWN_CONTAINERS:
                seen = (at, found.length)
                self._known[found.path] = _ContainerHistory(found.length, [seen], since=seen)
            return
        row.last = at
        before, row.length = row.length, found.length
        if found.length == before:
            return
        row.moved = at
        if row.name:
            self.recorder.span(row.name, at, at, found.length)
            return
        if found.length < before:
            row.seen.clear()
        row.seen.append((at, found.length))
        few = found.length < MIN_LENGTH
        if len(row.seen) > MIN_GROWN_WALKS and not (few and row.small) and self._named < MAX_NAMED_CONTAINERS:
            about = found.about()
            row.small = about.get("element_bytes", 0) < MIN_BIG_ELEMENT_BYTES and not about.get("at_least")
            if not (few and row.small):
                self._write(row, found.path, about)
        del row.seen[:-MAX_KEPT_LENGTHS]

    def _write(self, row: _ContainerHistory, path: str, about: dict[str, Any]) -> None:
        """Names a container that grows, and records the lengths seen so far."""
        self._named += 1
        row.name = self.recorder.name(CONTAINER_LANE, path, **about)
        row.each = math.inf if about.get("at_least") else about.get("element_bytes") or math.inf
        for then, length in row.seen:
            self.recorder.span(row.name, then, then, length)
        row.seen.clear()


def _resident_bytes_reader() -> Callable[[], int] | None:
    """Returns a reader of the process's resident memory without mapped files; None if the system has none."""
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        page_bytes = os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError, ValueError):
        return None

    def read_resident() -> int:
        fields = os.pread(file, 128, 0).split()
        return (int(fields[1]) - int(fields[2])) * page_bytes

    return read_resident


def _tensorflow_memory_readers() -> list[Callable[[], dict[str, int]]]:
    """Returns for each GPU a reader of the bytes that TensorFlow's allocator has in use, now and at most."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        return []
    info = tensorflow.config.experimental.get_memory_info

    def reader(device: str) -> Callable[[], dict[str, int]]:
        def read_bytes() -> dict[str, int]:
            found = info(device)
            return {"": int(found["current"]), "peak ": int(found["peak"])}

        return read_bytes

    return [reader(f"GPU:{i}") for i in range(len(tensorflow.config.list_logical_devices("GPU")))]
