"""What memory that grows is made of where no name of the script's leads to it: objects by type, lines that make them.

Only of a run whose memory goes on growing, and Python's own blocks with it: two counts of the types of all objects that
the collector knows, the second one when memory has grown by as much again; then, once, Python's own record of what is
allocated where (what :mod:`tracemalloc` reads), for a few steps. All of it in the main thread between two steps: what
the script lets go of while our list holds it is destroyed there, and not in a thread that it does not know.
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

from slowtrain.capture import frames
from slowtrain.capture.contents import module_of, type_name
from slowtrain.capture.patching import MARK, on_import
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress

tracer: Any
try:
    import _tracemalloc as tracer  # not tracemalloc: a script that imports it is to be the first to do so
except ImportError:  # not CPython
    tracer = None

LEAST_BYTES = 64 << 20  # gained in the second half of the time since the first step; and again until the second look
FIRST_NS = 3_000_000_000  # since the first step: before that, everything grows
PARTS, EVEN = 5, 0.5  # of that half; of its share of the growth each has to bring at least so much: no jump, no plateau
RISES = 3  # each of a quarter of LEAST_BYTES, with which Python's blocks have to rise
BYTES_A_BLOCK = 64 << 10  # memory that grows with fewer blocks than that is not made of Python's objects
MOST_LOOKS = 3  # one is made in vain where what trains came only after it
MOST_BLOCKS = 16_000_000  # there are no more objects than blocks, mostly far fewer: their list takes 8 bytes for each
MOST_TRACKED = 2_000_000  # in that list, to be gone through: 0.14 µs each, with making it
MOST_TYPES, MOST_LETTERS = 20, 200
FRAMES = 16  # of each allocation: from a library's line to the script's that called it
STEPS, HALF = 30, 0.5
LONGEST_NS = 1_000_000_000
MOST_TRACES = 16 << 20  # bytes that Python's record itself may take, before it is ended
MOST_LINES = 8
WAIT_NS = 60_000_000_000  # for the boundary of a step, until we give up
OPEN_NS = 5_000_000_000  # the same while allocations are recorded

_NOBODYS = (os.path.join(os.path.dirname(str(sys.modules["slowtrain"].__file__)), ""), MARK, "<unknown>")
At = tuple[str, int, bool]  # a line, and whether it is the user's
Sum = tuple[int, int]  # bytes and number of what was allocated there and is alive
Line = tuple[str, int, bool, int, int]
Trace = tuple[Any, ...]  # of one block: domain, bytes, its stack, innermost first


class Gaining:
    """Whether memory goes on growing, and Python's blocks with it. In the recorder's thread."""

    def __init__(self) -> None:
        self._begun_ns = 0
        self._samples: deque[tuple[int, int]] = deque()
        self._blocks: list[int] = []
        self._low = 0
        self._due_bytes = 0

    def rate(self, at: int, used: int) -> float:
        """Bytes a nanosecond in the second half of the time so far; 0 unless it grows all the time and by enough."""
        self._begun_ns = self._begun_ns or at
        samples, half = self._samples, (at - self._begun_ns) / 2
        samples.append((at, used))
        while samples[0][0] < at - half:
            samples.popleft()
        gained = used - samples[0][1]
        if gained < LEAST_BYTES or at - self._begun_ns < FIRST_NS:
            return 0.0
        lowest: list[int | None] = [None] * PARTS
        for then, had in samples:
            part = min(int(PARTS * (then - at + half) / half), PARTS - 1)
            known = lowest[part]
            lowest[part] = had if known is None else min(known, had)
        levels = [level for level in lowest if level is not None]
        even = len(levels) == PARTS and all(b - a >= EVEN * gained / PARTS for a, b in itertools.pairwise(levels))
        return gained / half if even else 0.0

    def of_python(self, used: int) -> bool:
        """To be asked while memory grows: whether Python's blocks, at their lowest, rose with each good part of it.

        What the collector has yet to free comes and goes, hundreds of blocks at a time.
        """
        part, blocks = LEAST_BYTES // 4, sys.getallocatedblocks()
        self._due_bytes = self._due_bytes or used + part
        self._low = min(self._low or blocks, blocks)
        if used >= self._due_bytes:
            self._due_bytes = used + part
            self._blocks.append(self._low)
            self._low = 0
            if any(b - a < part // BYTES_A_BLOCK for a, b in itertools.pairwise(self._blocks)):
                del self._blocks[:-1]
        return len(self._blocks) > RISES


@dataclass(frozen=True)
class _Look:
    """What was alive after ``steps`` steps of a kind; ``used`` bytes of memory, ``blocks`` of Python's."""

    at_ns: int
    steps: int
    kind: int
    used: int
    blocks: int
    counts: Counter[str]


@dataclass
class _Open:
    """While allocations are recorded: since when, and after how many steps; what was kept ``half`` way, and when."""

    begun_ns: int
    half_ns: int
    since: int
    half: int = 0
    kept: Sequence[Trace] | None = None


class ObjectsWatch:
    """Told of each reading of memory in the recorder's thread; does the rest at boundaries of steps."""

    def __init__(self, recorder: Recorder, progress: Progress) -> None:
        self.recorder = recorder
        self.progress = progress
        self.main = threading.main_thread().ident
        self.over = False
        self._gaining = Gaining()
        self._due: Callable[[int], None] | None = None  # what is to be done at the next boundary
        self._asked_ns = 0
        self._used = 0
        self._looks = 0
        self._first: _Look | None = None
        self._open: list[_Open] = []  # popped by whoever ends it
        self._hooked = False
        recorder.at_exit.append(self._end)
        recorder.at_end.append(self._end)

    # -- the recorder's thread

    def sampled(self, at: int, used: int, unexplained: Callable[[float], bool]) -> None:
        """``unexplained(rate)``: whether what is known to grow explains too little of so many bytes a nanosecond."""
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
        return used - first.used >= LEAST_BYTES if first is not None else self._gaining.of_python(used)

    def wait(self, at: int) -> None:
        """Windows of the profiler's go first; where no step comes along for long, nothing is looked at any more."""
        if self._due is None:
            return
        if at - self._asked_ns > (OPEN_NS if self._open else WAIT_NS):
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
        """Safe to call twice, and in any thread."""
        self.over, self._due = True, None
        if self.progress.boundary == self._at_boundary:
            self.progress.boundary = None
        self._stop()

    def _look(self, steps: int) -> None:
        blocks, first = sys.getallocatedblocks(), self._first
        if first is not None and (steps <= first.steps or self.progress.kind != first.kind):
            first = None  # steps count anew
        begun = now()
        counts = alive() if blocks <= MOST_BLOCKS and self._looks < MOST_LOOKS else None
        if counts is None:
            self._end()
            return
        self._looks += 1
        look = _Look(now(), steps, self.progress.kind, self._used, blocks, counts)
        self._first, self._due = first or look, None
        about: dict[str, Any] = {"tracked": sum(counts.values()), "collects": gc.isenabled()}
        if first is not None:
            grown = (counts - first.counts).most_common(MOST_TYPES)
            about["steps"] = steps - first.steps
            about["types"] = [[name[:MOST_LETTERS], counts[name], more] for name, more in grown]
        self.recorder.event("window", "objects", begun, look.at_ns, **about)
        if first is not None:
            self._lines_are_next(first, look)

    def _lines_are_next(self, first: _Look, look: _Look) -> None:
        """Not of steps so long that a few of them take too long, nor of what is no memory of Python's."""
        slow = look.at_ns - first.at_ns > LONGEST_NS * (look.steps - first.steps)
        if slow or (look.blocks - first.blocks) * BYTES_A_BLOCK < look.used - first.used:
            self._end()
        else:
            self._due, self._asked_ns = self._begin, look.at_ns

    def _begin(self, steps: int) -> None:
        if tracer is None or "tracemalloc" in sys.modules or tracer.is_tracing():  # somebody else's
            self._end()
            return
        if not self._hooked:
            self._hooked = True
            os.register_at_fork(before=self._stop)
            on_import(self.recorder, "tracemalloc", lambda _: self._stop())
        self._asked_ns = now()
        self._open.append(_Open(self._asked_ns, self._asked_ns, steps, steps))
        self._due = self._traced
        tracer.start(FRAMES)

    def _traced(self, steps: int) -> None:
        """Half way, and at the end: what lives for a step is alive both times, what is kept has become more."""
        if not self._open or steps < self._open[0].since:  # ended by others; steps count anew
            self._end()
            return
        window, takes = self._open[0], tracer.get_tracemalloc_memory()
        parts = 1 if window.kept is None else 2
        past = max((steps - window.half) / STEPS, (now() - window.half_ns) / LONGEST_NS, takes / MOST_TRACES / parts)
        if takes > 4 * MOST_TRACES:  # to go through them takes longer than they are worth
            self._end()
        elif past >= HALF and window.kept is None:
            window.kept, window.half, window.half_ns = traces(), steps, now()
        elif past >= HALF and window.kept is not None:
            before, after = window.kept, traces()
            tracer.stop()  # what is allocated in going through them is not recorded: twice as slow
            self._stop(steps - window.half, more(before, after))
            self._end()

    def _stop(self, steps: int = 0, lines: Sequence[Line] = ()) -> None:
        """Ends the record; with nothing told before a fork, and where the script comes to use it itself."""
        try:
            window = self._open.pop()
        except IndexError:
            return
        tracer.stop()
        self.recorder.event("window", "allocations", window.begun_ns, now(), steps=steps, lines=lines)


def alive() -> Counter[str] | None:
    """Objects that the collector knows, by module and name of their type; None of too many.

    Nothing of theirs is called: a type is told by its id, for to hash it may be to call its metaclass.
    """
    objects = gc.get_objects()
    kinds = list(map(type, objects)) if len(objects) <= MOST_TRACKED else None
    del objects
    if kinds is None:
        return None
    numbers = list(map(id, kinds))
    by_number = dict(zip(numbers, kinds, strict=True))
    found: Counter[str] = Counter()
    for number, count in Counter(numbers).items():
        kind = by_number[number]
        module = module_of(kind)
        found[str(type_name(kind)) if module == "builtins" else f"{module}.{type_name(kind)}"] += count
    return found


def traces() -> Sequence[Trace]:
    """What was allocated since the record began and is alive, block by block."""
    collects = gc.isenabled()
    gc.disable()  # a tuple for each: the collector would come again and again
    try:
        return cast(Sequence[Trace], tracer._get_traces())
    finally:
        if collects:
            gc.enable()


def more(before: Sequence[Trace], after: Sequence[Trace]) -> list[Line]:
    """The lines of which more is alive ``after`` than ``before``, by bytes; at most :data:`MOST_LINES`."""
    known = summed(before)
    grown = [
        (*at, size - known.get(at, (0, 0))[0], count - known.get(at, (0, 0))[1])
        for at, (size, count) in summed(after).items()
    ]
    return sorted((row for row in grown if row[3] > 0), key=lambda row: -row[3])[:MOST_LINES]


def summed(blocks: Sequence[Trace]) -> dict[At, Sum]:
    """Bytes and number of blocks by file, line, and whether that is the user's."""
    stacks: dict[int, list[Any]] = {}
    for _, size, stack, *_ in blocks:
        row = stacks.get(id(stack))  # the same object for all from there
        if row is None:
            stacks[id(stack)] = [stack, size, 1]
        else:
            row[1] += size
            row[2] += 1
    found: dict[At, Sum] = {}
    for stack, size, count in stacks.values():
        line = _line(stack)
        if line is not None:
            before = found.get(line, (0, 0))
            found[line] = before[0] + size, before[1] + count
    return found


def _line(stack: Any) -> At | None:
    """The user's innermost line, else the library's; None for what we allocate ourselves, and where nobody knows."""
    if stack[0][0].startswith(_NOBODYS):
        return None
    for file, line in stack:
        if frames.users(file):
            return file, line, True
    return (*stack[0], False)
