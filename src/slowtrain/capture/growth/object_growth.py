"""Finds the cause of memory growth that no name of the script leads to: objects by type, and the lines that create
them.

This runs only if the memory of a run goes on growing, and Python's own blocks with it. The types of all objects that
the collector knows are counted twice, the second time when memory has grown by as much again. Then Python's own record
of allocations (the one that :mod:`tracemalloc` reads) is switched on once, for a few steps. All of this runs in the
main thread between two steps. If our list holds the last reference to an object, the object is destroyed there and not
in a thread that the script does not know.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from slowtrain.capture.core.patching import FILE_MARK, patch_on_import
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.inspection import user_code
from slowtrain.capture.inspection.container_contents import module_name, type_name

tracer: Any
try:
    import _tracemalloc as tracer  # not tracemalloc: a script that imports it has to be the first to do so
except ImportError:  # not CPython
    tracer = None

MIN_GAINED_BYTES = (
    64 << 20
)  # gained in the second half of the time since the first step, and again until the second count
MIN_TRAINING_NS = 3_000_000_000  # since the first step; before that, everything grows
GROWTH_PARTS, MIN_PART_SHARE = (
    5,
    0.5,
)  # parts of that half, and the share of an even growth that each has to have: no jump, no plateau
MIN_BLOCK_RISES = 3  # rises of Python's blocks, each over a quarter of ``MIN_GAINED_BYTES``
MAX_BYTES_A_BLOCK = 64 << 10  # memory that grows with fewer blocks than that does not consist of Python objects
MAX_TYPE_COUNTS = 3  # a count is useless if training began only after it
MAX_BLOCKS = 16_000_000  # at most one object for each block, usually far fewer; their list takes 8 bytes for each
MAX_TRACKED_OBJECTS = 2_000_000  # objects in that list; creating and reading it takes 0.14 µs each
MAX_TYPES, MAX_TYPE_LETTERS = 20, 200
TRACED_FRAMES = 16  # of each allocation, from a library's line to the line of the script that called it
RECORDED_STEPS, HALF_WAY_SHARE = 30, 0.5
MAX_RECORDING_NS = 1_000_000_000
MAX_TRACE_BYTES = 16 << 20  # bytes of Python's own record, before it is ended
MAX_LINES = 8
MAX_WAIT_NS = 60_000_000_000  # for a step boundary, before the watch gives up
MAX_RECORDING_WAIT_NS = 5_000_000_000  # the same while allocations are recorded

_IGNORED_FILES = (os.path.join(os.path.dirname(str(sys.modules["slowtrain"].__file__)), ""), FILE_MARK, "<unknown>")
LineKey = tuple[str, int, bool]  # a line, and whether it is the user's
BlockSum = tuple[int, int]  # bytes and number of the live blocks that were allocated there
GrownLine = tuple[str, int, bool, int, int]
BlockTrace = tuple[Any, ...]  # one block: domain, bytes, and its stack, innermost first


class MemoryGain:
    """Decides whether memory goes on growing, and Python's blocks with it. Runs in the recorder's thread."""

    def __init__(self) -> None:
        self._begun_ns = 0
        self._samples: deque[tuple[int, int]] = deque()
        self._blocks: list[int] = []
        self._low = 0
        self._due_bytes = 0

    def rate(self, at: int, used: int) -> float:
        """Returns the growth in bytes a ns over the second half of the time; 0 unless it is steady and large."""
        self._begun_ns = self._begun_ns or at
        samples, half = self._samples, (at - self._begun_ns) / 2
        samples.append((at, used))
        while samples[0][0] < at - half:
            samples.popleft()
        gained = used - samples[0][1]
        if gained < MIN_GAINED_BYTES or at - self._begun_ns < MIN_TRAINING_NS:
            return 0.0
        lowest: list[int | None] = [None] * GROWTH_PARTS
        for then, had in samples:
            part = min(int(GROWTH_PARTS * (then - at + half) / half), GROWTH_PARTS - 1)
            known = lowest[part]
            lowest[part] = had if known is None else min(known, had)
        levels = [level for level in lowest if level is not None]
        even = len(levels) == GROWTH_PARTS and all(
            b - a >= MIN_PART_SHARE * gained / GROWTH_PARTS for a, b in itertools.pairwise(levels)
        )
        return gained / half if even else 0.0

    def of_python(self, used: int) -> bool:
        """Returns whether the minimum of Python's blocks rose with each quarter of the growth. Called while memory
        grows.

        The minimum is used because objects that the collector has yet to free come and go, hundreds of blocks at a
        time.
        """
        part, blocks = MIN_GAINED_BYTES // 4, sys.getallocatedblocks()
        self._due_bytes = self._due_bytes or used + part
        self._low = min(self._low or blocks, blocks)
        if used >= self._due_bytes:
            self._due_bytes = used + part
            self._blocks.append(self._low)
            self._low = 0
            if any(b - a < part // MAX_BYTES_A_BLOCK for a, b in itertools.pairwise(self._blocks)):
                del self._blocks[:-1]
        return len(self._blocks) > MIN_BLOCK_RISES


@dataclass(frozen=True)
class _TypeCount:
    """Live objects after ``steps`` steps of a kind, with ``used`` bytes of memory and ``blocks`` Python blocks."""

    at_ns: int
    steps: int
    kind: int
    used: int
    blocks: int
    counts: Counter[str]


@dataclass
class _AllocationRecord:
    """A record of allocations in progress: its start in ns and in steps; what was ``kept`` half way, and when."""

    begun_ns: int
    half_ns: int
    since: int
    half: int = 0
    kept: Sequence[BlockTrace] | None = None


class ObjectGrowthWatch:
    """Gets each memory reading in the recorder's thread. Counts and records at step boundaries."""

    def __init__(self, recorder: Recorder, progress: Progress) -> None:
        self.recorder = recorder
        self.progress = progress
        self.main = threading.main_thread().ident
        self.over = False
        self._gaining = MemoryGain()
        self._due: Callable[[int], None] | None = None  # runs at the next boundary
        self._asked_ns = 0
        self._used = 0
        self._looks = 0
        self._first: _TypeCount | None = None
        self._open: list[_AllocationRecord] = []  # popped by whoever ends it
        self._hooked = False
        recorder.at_exit.append(self._end)
        recorder.at_end.append(self._end)

    # -- the recorder's thread

    def handle_reading(self, at: int, used: int, unexplained: Callable[[float], bool]) -> None:
        """Handles one memory reading.

        ``unexplained(rate)`` returns whether the containers that are known to grow explain too little of ``rate``
        bytes a nanosecond.
        """
        if self.over:
            return
        self._used = used
        rate = self._gaining.rate(at, used)
        if self._due is None and self._grows(rate, used) and unexplained(rate):
            self._due, self._asked_ns = self._look, at

    def _grows(self, rate: float, used: int) -> bool:
        if not rate:
            return False
        first = self._first
        return used - first.used >= MIN_GAINED_BYTES if first is not None else self._gaining.of_python(used)

    def wait(self, at: int) -> None:
        """Waits for a step boundary. Profiler windows have priority. Gives up if no step comes for a long time."""
        if self._due is None:
            return
        if at - self._asked_ns > (MAX_RECORDING_WAIT_NS if self._open else MAX_WAIT_NS):
            self._end()
        elif self.progress.boundary is None:
            self.progress.boundary = self._at_boundary

    # -- the main thread

    def _at_boundary(self, steps: int) -> None:
        due = self._due
        if threading.get_ident() != self.main or due is None:
            return
        try:
            due(steps)
        except Exception:
            self.recorder.fault("objects")
            self._end()
        if self._due is None and self.progress.boundary == self._at_boundary:
            self.progress.boundary = None

    def _end(self) -> None:
        """Ends the watch. Can be called twice, and in any thread."""
        self.over, self._due = True, None
        if self.progress.boundary == self._at_boundary:
            self.progress.boundary = None
        self._stop()

    def _look(self, steps: int) -> None:
        blocks, first = sys.getallocatedblocks(), self._first
        if first is not None and (steps <= first.steps or self.progress.kind != first.kind):
            first = None  # steps count from 1 again
        begun = now()
        counts = count_live_types() if blocks <= MAX_BLOCKS and self._looks < MAX_TYPE_COUNTS else None
        if counts is None:
            self._end()
            return
        self._looks += 1
        look = _TypeCount(now(), steps, self.progress.kind, self._used, blocks, counts)
        self._first, self._due = first or look, None
        about: dict[str, Any] = {"tracked": sum(counts.values()), "collects": gc.isenabled()}
        if first is not None:
            grown = (counts - first.counts).most_common(MAX_TYPES)
            about["steps"] = steps - first.steps
            about["types"] = [[name[:MAX_TYPE_LETTERS], counts[name], more] for name, more in grown]
        self.recorder.event("window", "objects", begun, look.at_ns, **about)
        if first is not None:
            self._lines_are_next(first, look)

    def _lines_are_next(self, first: _TypeCount, look: _TypeCount) -> None:
        """Decides whether allocations are recorded.

        Not if steps are so long that a few of them take too much time, or if the memory is not Python's.
        """
        slow = look.at_ns - first.at_ns > MAX_RECORDING_NS * (look.steps - first.steps)
        if slow or (look.blocks - first.blocks) * MAX_BYTES_A_BLOCK < look.used - first.used:
            self._end()
        else:
            self._due, self._asked_ns = self._begin, look.at_ns

    def _begin(self, steps: int) -> None:
        if tracer is None or "tracemalloc" in sys.modules or tracer.is_tracing():  # somebody else's record
            self._end()
            return
        if not self._hooked:
            self._hooked = True
            os.register_at_fork(before=self._stop)
            patch_on_import(self.recorder, "tracemalloc", lambda _: self._stop())
        self._asked_ns = now()
        self._open.append(_AllocationRecord(self._asked_ns, self._asked_ns, steps, steps))
        self._due = self._take_traced_blocks
        tracer.start(TRACED_FRAMES)

    def _take_traced_blocks(self, steps: int) -> None:
        """Takes the live blocks half way and at the end.

        What lives for one step is alive both times. What is kept has grown.
        """
        if not self._open or steps < self._open[0].since:  # ended by others, or steps count from 1 again
            self._end()
            return
        window, takes = self._open[0], tracer.get_tracemalloc_memory()
        parts = 1 if window.kept is None else 2
        past = max(
            (steps - window.half) / RECORDED_STEPS,
            (now() - window.half_ns) / MAX_RECORDING_NS,
            takes / MAX_TRACE_BYTES / parts,
        )
        if takes > 4 * MAX_TRACE_BYTES:  # reading them would take too long
            self._end()
        elif past >= HALF_WAY_SHARE and window.kept is None:
            window.kept, window.half, window.half_ns = live_blocks(), steps, now()
        elif past >= HALF_WAY_SHARE and window.kept is not None:
            before, after = window.kept, live_blocks()
            tracer.stop()  # otherwise the allocations of reading them are recorded, which takes twice as long
            self._stop(steps - window.half, grown_lines(before, after))
            self._end()

    def _stop(self, steps: int = 0, lines: Sequence[GrownLine] = ()) -> None:
        """Ends the record. Reports no lines before a fork, or if the script starts to use tracemalloc itself."""
        try:
            window = self._open.pop()
        except IndexError:
            return
        tracer.stop()
        self.recorder.event("window", "allocations", window.begun_ns, now(), steps=steps, lines=lines)


def count_live_types() -> Counter[str] | None:
    """Counts the objects that the collector knows, by module and name of their type; None if there are too many.

    None of their methods is called. A type is identified by its id, because hashing it may call its metaclass.
    """
    objects = gc.get_objects()
    kinds = list(map(type, objects)) if len(objects) <= MAX_TRACKED_OBJECTS else None
    del objects
    if kinds is None:
        return None
    numbers = list(map(id, kinds))
    by_number = dict(zip(numbers, kinds, strict=True))
    found: Counter[str] = Counter()
    for number, count in Counter(numbers).items():
        kind = by_number[number]
        module = module_name(kind)
        found[str(type_name(kind)) if module == "builtins" else f"{module}.{type_name(kind)}"] += count
    return found


def live_blocks() -> Sequence[BlockTrace]:
    """Returns the live blocks that were allocated since the record began."""
    collects = gc.isenabled()
    gc.disable()  # a tuple for each block would start the collector again and again
    try:
        return cast(Sequence[BlockTrace], tracer._get_traces())
    finally:
        if collects:
            gc.enable()


def grown_lines(before: Sequence[BlockTrace], after: Sequence[BlockTrace]) -> list[GrownLine]:
    """Returns the lines with more live bytes ``after`` than ``before``, largest first, at most ``MAX_LINES``."""
    known = sum_by_line(before)
    grown = [
        (*at, size - known.get(at, (0, 0))[0], count - known.get(at, (0, 0))[1])
        for at, (size, count) in sum_by_line(after).items()
    ]
    return sorted((row for row in grown if row[3] > 0), key=lambda row: -row[3])[:MAX_LINES]


def sum_by_line(blocks: Sequence[BlockTrace]) -> dict[LineKey, BlockSum]:
    """Returns bytes and number of blocks by (file, line, whether it is the user's)."""
    stacks: dict[int, list[Any]] = {}
    for _, size, stack, *_ in blocks:
        row = stacks.get(id(stack))  # blocks with the same stack share one object
        if row is None:
            stacks[id(stack)] = [stack, size, 1]
        else:
            row[1] += size
            row[2] += 1
    found: dict[LineKey, BlockSum] = {}
    for stack, size, count in stacks.values():
        line = _blamed_line(stack)
        if line is not None:
            before = found.get(line, (0, 0))
            found[line] = before[0] + size, before[1] + count
    return found


def _blamed_line(stack: Any) -> LineKey | None:
    """Returns the innermost line of the user's, else the library's line; None for our own allocations and unknown
    ones.
    """
    if stack[0][0].startswith(_IGNORED_FILES):
        return None
    for file, line in stack:
        if user_code.is_user_source(file):
            return file, line, True
    return (*stack[0], False)
