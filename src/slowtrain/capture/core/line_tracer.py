"""Measures time by line of the user's source, for a few calls and a few steps.

A sampler inside the process gets the interpreter lock when another thread releases it. So its samples show where the
lock is released, not where time is spent. A line tracer over a few calls has no such bias. Its budget is small: it
traces at most one call in many. It stops after ``MAX_TRACED_LINES`` lines of a call, and the time of the rest is
distributed like that of the traced part.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.inspection import user_code

MAX_TRACED_LINES = 20_000
MAX_TRACED_CALLS = 12  # traced calls of each producing function
MIN_TRACE_PERIOD_NS = 150_000_000  # minimum time between two traced calls


class LineTracer:
    """Traces one thread from :meth:`begin` to :meth:`end`. ``spent`` is ns by (file, line) of the user's frames."""

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
        """Starts tracing. ``frame`` and its callers in the user's code are traced from their current lines on."""
        if sys.gettrace() is not None:  # a debugger or a coverage tool is active, and has priority
            return False
        while frame is not None:
            if user_code.is_user_code(frame.f_code) and frame.f_trace is None:
                frame.f_trace = self._line
                self._set.append(frame)
                self._stack.insert(0, (frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        self._last = now()
        self._traced = self._call  # one object, so that it can be compared
        sys.settrace(self._traced)
        return True

    def end(self) -> None:
        cut = self._over
        self._release()
        if cut:
            self._distribute_rest()
        else:
            self._charge()
        for frame in self._set:
            if getattr(frame.f_trace, "__self__", None) is self:
                frame.f_trace = None
        self._set.clear()

    def _release(self) -> None:
        """Stops tracing, unless the user has set another tracer meanwhile."""
        self._over = True
        if sys.gettrace() is self._traced:
            sys.settrace(None)

    def _distribute_rest(self) -> None:
        """Distributes the time after the tracer stopped over the lines traced before, because any of them may have
        run.
        """
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
        if self._over or not (user_code.is_user_code(code) or user_code.has_origins(code.co_filename)):
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
        if self._events > MAX_TRACED_LINES:
            self._release()
            return None
        self._last = now()
        return self._line


class LineClock:
    """Decides which calls of producing functions are traced, and records the time of their lines."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._left: dict[int | None, int] = {}
        self._next: dict[int | None, int] = {}
        self._active = threading.local()

    def begin_call(self, name: int | None, start_ns: int) -> bool:
        """Returns whether this call is traced. If so, :meth:`end_call` must follow in the same thread."""
        if start_ns < self._next.get(name, 0):
            return False
        left = self._left.get(name, MAX_TRACED_CALLS + 1)
        if left <= 0:
            return False
        self._left[name] = left - 1
        self._next[name] = start_ns + MIN_TRACE_PERIOD_NS
        if left == MAX_TRACED_CALLS + 1:  # the first call opens files and fills caches
            return False
        tracer = LineTracer()
        if not tracer.begin():
            return False
        self._active.tracer = tracer
        return True

    def end_call(self, name: int | None) -> None:
        tracer: LineTracer = self._active.tracer
        tracer.end()
        self.recorder.event("lines", "producer", now(), producer=name, calls=1, lines=costliest_lines(tracer))


def costliest_lines(tracer: LineTracer) -> list[tuple[str, int, int, int]]:
    """Returns ``(file, line, ns, visits)``, highest time first, at most forty. AutoGraph makes several lines of one."""
    spent: dict[tuple[str, int], list[int]] = {}
    for at, ns in tracer.spent.items():
        row = spent.setdefault(user_code.origin_line(*at), [0, 0])
        row[0] += ns
        row[1] = max(row[1], tracer.visits.get(at, 0))
    ordered = sorted(spent.items(), key=lambda item: -item[1][0])[:40]
    return [(file, line, ns, visits) for (file, line), (ns, visits) in ordered]
