"""Deep windows: the framework's profiler for a few steady steps, then a line tracer for a few more.

The windows begin at step boundaries of the main thread. What the steps inside them cost more
than their neighbours is computed by the reader from the steps themselves.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from slowtrain.capture.lines import LineTracer, rows
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress

WARMUP_STEPS = 8
WARMUP_NS = 300_000_000
STEPS = 20
LINE_STEPS = 8
LONGEST_NS = 1_000_000_000
SECOND_NS = 30_000_000_000  # the second window, this long after the first
OPTIONS = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0}


class Windows:
    """Called at each step boundary; idle, it costs two comparisons."""

    def __init__(self, recorder: Recorder, progress: Progress, enabled: bool = True) -> None:
        self.recorder = recorder
        self.progress = progress
        self.main = threading.main_thread().ident
        self._session: Any = None
        self._tracer: LineTracer | None = None
        self._kind = 0
        self._first_ns = 0
        self._begun_ns = 0
        self._clock_ns = 0  # the time of day less our clock: the profiler counts in the first
        self._since = 0
        self._until = 0
        self._start_ns = 0
        self._done = 0
        self._next_ns = 0
        if enabled:
            progress.boundary = self._boundary
            recorder.at_exit.append(self._close)

    def _boundary(self, steps: int) -> None:
        if threading.get_ident() != self.main:
            return
        at = now()
        if steps == 1:
            self._first_ns = at
            self._until = 0
        if self._session is not None:
            if steps >= self._until or at - self._start_ns > LONGEST_NS:
                self._end_profile(steps, at)
        elif self._tracer is not None:
            if steps >= self._until or at - self._start_ns > LONGEST_NS:
                self._end_lines(steps, at)
        elif self._next_ns and at >= self._next_ns:
            self._begin(steps, at)
        elif not self._next_ns and steps > WARMUP_STEPS and at - self._first_ns > WARMUP_NS:
            self._begin(steps, at)

    def _begin(self, steps: int, at: int) -> None:
        self._since, self._until, self._start_ns = steps, steps + (STEPS if self._done % 2 == 0 else LINE_STEPS), at
        if self._done % 2 == 0:
            self.recorder.guard("profiler", self._begin_profile)
            if self._session is None:  # the user's own profiler is at work, or there is none
                self._done += 1
                self._next_ns = at
        else:
            tracer = LineTracer()
            if tracer.begin(sys._getframe(2)):
                self._tracer = tracer
            else:
                self._schedule(at)

    def _begin_profile(self) -> None:
        profiler = sys.modules.get("tensorflow.python.profiler.internal._pywrap_profiler")
        if profiler is None:
            from tensorflow.python.profiler.internal import _pywrap_profiler as profiler
        session = profiler.ProfilerSession()
        self._clock_ns = time.time_ns() - now()
        session.start(str(self.recorder.folder / f"window-{self._done // 2 + 1}"), OPTIONS)
        self._begun_ns = now()
        self._session = session

    def _schedule(self, at: int) -> None:
        """The line window follows the profile at once; the second pair comes much later, once."""
        self._done += 1
        if self._done % 2:
            self._next_ns = at
        else:
            self._next_ns = at + SECOND_NS if self._done < 4 else 1 << 62

    def _end_profile(self, steps: int, at: int) -> None:
        session, self._session = self._session, None
        self.recorder.guard("profiler", session.export_to_tb)
        end = now()
        folder = f"window-{self._done // 2 + 1}"
        self.recorder.event(
            "window", "profile", self._start_ns, end,
            steps=steps - self._since, last_step_ns=at, folder=folder, clock_ns=self._clock_ns, begun_ns=self._begun_ns,
        )
        self._schedule(end)

    def _end_lines(self, steps: int, at: int) -> None:
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.end()
            self.recorder.event(
                "window", "lines", self._start_ns, at, steps=steps - self._since, last_step_ns=at, lines=rows(tracer)
            )
        self._schedule(now())

    def _close(self) -> None:
        if self._session is not None:
            self._end_profile(self.progress.steps, now())
        elif self._tracer is not None:
            self._end_lines(self.progress.steps, now())
