"""Time by line of the user's source, for a few calls and a few steps: exact where sampling is not.

A sampler that lives in the process gets the interpreter lock when someone lets go of it, so
its samples fall where the lock is released, not where the time goes. A line tracer over a
handful of calls has no such bias. Its budget is small: it traces no more than one call in
many, and gives up on a call after ``MAX_EVENTS`` lines: what is left of it then counts as what was traced of it.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from slowtrain.capture import frames, generated
from slowtrain.capture.recorder import Recorder, now

MAX_EVENTS = 20_000
CALLS = 12  # calls traced for each producing function
EVERY_NS = 150_000_000  # at most one call traced in this time


class LineTracer:
    """Traces one thread from :meth:`begin` to :meth:`end`; ``spent`` is ns by (file, line) of user frames."""

    def __init__(self) -> None:
        self.spent: dict[tuple[str, int], int] = {}
        self.visits: dict[tuple[str, int], int] = {}
        self._stack: list[tuple[str, int]] = []
        self._last = 0
        self._events = 0
        self._over = False
        self._set: list[FrameType] = []
        self._traced: Any = None

    def begin(self, frame: FrameType | None = None) -> bool:
        """Starts; ``frame`` and its callers among the user's are traced from where they stand."""
        if sys.gettrace() is not None:  # a debugger or a coverage tool is at work: it goes first
            return False
        while frame is not None:
            if frames.is_user(frame.f_code) and frame.f_trace is None:
                frame.f_trace = self._line
                self._set.append(frame)
                self._stack.insert(0, (frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        self._last = now()
        self._traced = self._call  # one object, to know it again
        sys.settrace(self._traced)
        return True

    def end(self) -> None:
        cut = self._over
        self._release()
        if cut:
            self._spread()
        else:
            self._charge()
        for frame in self._set:
            if getattr(frame.f_trace, "__self__", None) is self:
                frame.f_trace = None
        self._set.clear()

    def _release(self) -> None:
        """Stops tracing, unless the user has put a tracer of their own in our place meanwhile."""
        self._over = True
        if sys.gettrace() is self._traced:
            sys.settrace(None)

    def _spread(self) -> None:
        """The time since it gave up, over the lines until then: the line at which it did is any of a long loop's."""
        known = sum(self.spent.values())
        more = 1 + (now() - self._last) / max(known, 1)
        for counted in (self.spent, self.visits):
            for key in counted:
                counted[key] = int(counted[key] * more)

    def _charge(self) -> None:
        at = now()
        if self._stack:
            key = self._stack[-1]
            self.spent[key] = self.spent.get(key, 0) + at - self._last
        self._last = at

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if self._over or not (frames.is_user(code) or generated.known(code.co_filename)):
            return None
        self._charge()
        self._stack.append((frame.f_code.co_filename, frame.f_lineno))
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self._over:  # a frame that was entered while we traced, seen by somebody else's tracer
            return None
        self._charge()
        key = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line":
            self.visits[key] = self.visits.get(key, 0) + 1
            if self._stack:
                self._stack[-1] = key
            else:
                self._stack.append(key)
        elif event == "return" and self._stack:
            self._stack.pop()
        self._events += 1
        if self._events > MAX_EVENTS:
            self._release()
            return None
        self._last = now()
        return self._line


class LineClock:
    """Decides which calls of producing functions are traced, and records what the lines cost."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._left: dict[int | None, int] = {}
        self._next: dict[int | None, int] = {}
        self._active = threading.local()

    def begin_call(self, name: int | None, start_ns: int) -> bool:
        """Whether this call is traced; then :meth:`end_call` must follow in the same thread."""
        if start_ns < self._next.get(name, 0):
            return False
        left = self._left.get(name, CALLS + 1)
        if left <= 0:
            return False
        self._left[name] = left - 1
        self._next[name] = start_ns + EVERY_NS
        if left == CALLS + 1:  # the first call opens files and fills caches
            return False
        tracer = LineTracer()
        if not tracer.begin():
            return False
        self._active.tracer = tracer
        return True

    def end_call(self, name: int | None) -> None:
        tracer: LineTracer = self._active.tracer
        tracer.end()
        self.recorder.event("lines", "producer", now(), producer=name, calls=1, lines=rows(tracer))


def rows(tracer: LineTracer) -> list[tuple[str, int, int, int]]:
    """``(file, line, ns, visits)``, costliest first, at most forty. AutoGraph makes several lines of one."""
    spent: dict[tuple[str, int], list[int]] = {}
    for at, ns in tracer.spent.items():
        row = spent.setdefault(generated.origin(*at), [0, 0])
        row[0] += ns
        row[1] = max(row[1], tracer.visits.get(at, 0))
    ordered = sorted(spent.items(), key=lambda item: -item[1][0])[:40]
    return [(file, line, ns, visits) for (file, line), (ns, visits) in ordered]
