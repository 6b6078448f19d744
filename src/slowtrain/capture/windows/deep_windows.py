"""Deep windows: the framework's profiler for a few steady steps, then a line tracer for a few more.

The windows begin at step boundaries of the main thread. The reader computes how much longer the steps inside them take
than their neighbours, from the steps themselves.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from slowtrain.capture.core.line_tracer import LineTracer, costliest_lines
from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress
from slowtrain.capture.windows import framework_profilers

WARMUP_STEPS = 14  # of which ten or more are steady, so that runs of two dozen steps can be diagnosed
WARMUP_NS = 300_000_000
PROFILE_STEPS = 20
LINE_STEPS = 8
MIN_PROFILE_STEPS = 4
MIN_PROFILE_NS = 300_000_000
MAX_PROFILE_NS = 1_000_000_000
NEVER_NS = 1 << 62
MAX_REPEATED_WINDOWS = 3  # windows of a run that are repeated because they had to end too early
SECOND_WINDOW_NS = 30_000_000_000  # start of the second window, after the first
USER_PROFILERS = (
    (framework_profilers.TENSORFLOW_PROFILER, "start"),
    (framework_profilers.JAX_PROFILER, "start_trace"),
    ("jax.profiler", "start_trace"),
)


class DeepWindows:
    """Called at each step boundary, except while the next window is far away.

    The recorder's thread sets the call again.
    """

    def __init__(
        self,
        recorder: Recorder,
        progress: Progress,
        enabled: bool = True,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self.settle = settle  # waits until the device has done what the steps so far have started
        self.recorder = recorder
        self.progress = progress
        self.main = threading.main_thread().ident
        self._sessions: list[
            framework_profilers.EndProfile
        ] = []  # ends the current session, if any; popped by whoever calls it
        self._tracer: LineTracer | None = None
        self._first_ns = 0
        self._begun_ns = 0
        self._clock_ns = 0  # the time of day minus our clock; the profiler uses the time of day
        self._since = 0
        self._until = 0
        self._start_ns = 0
        self._done = 0
        self._again = MAX_REPEATED_WINDOWS
        self._number = 0
        self._next_ns = 0
        if enabled:
            progress.boundary = self._at_boundary
            progress.stronger = self._repeat_windows
            recorder.at_exit.append(self._close)
            recorder.at_fork.append(self._abandon)
            recorder.at_end.append(self._stop_all)
            recorder.every(0.5, self._arm_or_end)
            for module, name in USER_PROFILERS:
                patch_on_import(recorder, module, partial(self._patch_profiler, name))

    def _at_boundary(self, steps: int) -> None:
        try:
            self._boundary(steps)
        except Exception:
            self.recorder.fault("windows")
            self.progress.boundary, self._next_ns = None, NEVER_NS
            self._sessions.clear()

    def _repeat_windows(self) -> None:
        """Repeats windows that were spent on steps before training (such as predictions), because training begins only
        now.
        """
        if self._done and self._again > 0 and not self._sessions and self._tracer is None:
            self._again -= 1
            self._done, self._next_ns, self._first_ns = 0, 0, now()
            self.progress.boundary = self._at_boundary

    def _boundary(self, steps: int) -> None:
        if threading.get_ident() != self.main:
            return
        at = now()
        if steps == 1:
            self._first_ns = at
            self._until = 0
        if self._sessions:
            if steps < self._since:  # training begins only now: no step so far was a training step
                self._end_profile(0, at, again=True)
            elif self._has_enough(steps, at):
                # A device with a queue has not done the window's last steps yet. Without them there would be more
                # steps than work. So the window waits for it. This is the only wait, and it is part of the window.
                self.recorder.guard("device", self.settle)
                self._end_profile(steps, now())
        elif self._tracer is not None:
            if self._has_enough(steps, at):
                self._end_lines(steps, at)
        elif at >= self._next_ns if self._next_ns else steps > WARMUP_STEPS and at - self._first_ns > WARMUP_NS:
            self._begin(steps, at)

    def _has_enough(self, steps: int, at: int) -> bool:
        """Returns whether the window has enough steps, or enough time and a few steps.

        In a short run with long steps most steps stay undisturbed.
        """
        spent = at - self._start_ns
        few = steps - self._since >= MIN_PROFILE_STEPS
        return steps >= self._until or spent > MAX_PROFILE_NS or (few and spent > MIN_PROFILE_NS)

    def _begin(self, steps: int, at: int) -> None:
        self._since, self._until, self._start_ns = (
            steps,
            steps + (PROFILE_STEPS if self._done % 2 == 0 else LINE_STEPS),
            at,
        )
        if self._done % 2 == 0:
            self.recorder.guard("profiler", self._begin_profile)
            if not self._sessions:  # the user's own profiler is active, or there is none
                self._done += 1
                self._next_ns = at
        else:
            tracer = LineTracer()
            if tracer.begin(sys._getframe(1)):
                self._tracer = tracer
            else:
                self._schedule(at)

    def _begin_profile(self) -> None:
        if not self.recorder.folder.is_dir():
            return
        self._clock_ns = time.time_ns() - now()
        self._number += 1
        end = framework_profilers.begin_profile(self.recorder.folder / f"window-{self._number}")
        self._begun_ns = now()
        if end is not None:
            self._sessions.append(end)
            self.progress.compiling = self._end_before_compiling

    def _end_before_compiling(self) -> None:
        """Ends the window before something is compiled.

        What is loaded onto a GPU while the profiler is active may fail to launch after the profiler has ended. Seen on
        JAX 0.11.2 with CUDA 13: a model compiled again inside a window crashed in its first step after the window. A
        window that has seen too few steps is repeated a little later.
        """
        if threading.get_ident() != self.main or not self._sessions:
            return
        at, steps = now(), self.progress.steps
        few = steps - self._since < MIN_PROFILE_STEPS
        self._end_profile(steps, at, again=few)

    def _schedule(self, at: int) -> None:
        """Schedules the next window: the line window directly after the profile, the second pair much later, once."""
        self._done += 1
        if self._done % 2:
            self._next_ns = at
        else:
            self._next_ns = at + SECOND_WINDOW_NS if self._done < 4 else NEVER_NS
            self.progress.boundary = None

    def _end_profile(self, steps: int, at: int, again: bool = False) -> None:
        """Ends the profile. ``again``: it saw nothing useful and is repeated a little later, a few times in a run."""
        try:
            close = self._sessions.pop()
        except IndexError:  # the other thread was first
            return
        self.progress.compiling = None
        folder = f"window-{self._number}"
        if self.recorder.folder.is_dir():  # otherwise the folder would be created again
            self.recorder.guard("profiler", close)
        end = now()
        self.recorder.event(
            "window", "profile", self._start_ns, end,
            steps=max(steps - self._since, 0), last_step_ns=at, folder=folder, clock_ns=self._clock_ns,
            begun_ns=self._begun_ns,
        )  # fmt: skip
        self._schedule(end)
        if again and self._again > 0:
            self._again -= 1
            self._done -= 1
            self._next_ns = at + WARMUP_NS

    def _arm_or_end(self) -> None:
        """Sets the next windows, and ends a profile if no step comes to end it. Runs in the recorder's thread."""
        at = now()
        if self.progress.boundary is None and self._next_ns <= at:
            self.progress.boundary = self._at_boundary
        if self._sessions and at - self._begun_ns > 2 * MAX_PROFILE_NS:
            steps = self.progress.steps
            self._end_profile(steps, at, again=steps <= self._since)

    def _patch_profiler(self, name: str, module: Any) -> None:
        """Gives priority to the user's own profiler: there can be only one, and theirs would fail."""

        def start(original: Wrapper) -> Wrapper:
            def start(*args: Any, **kwargs: Any) -> Any:
                if self._sessions:
                    self.recorder.guard("profiler", self._end_profile, self.progress.steps, now())
                return original(*args, **kwargs)

            return start

        replace_function(module, name, start)

    def _stop_all(self) -> None:
        """Stops all windows, because recording has ended before the script."""
        self.progress.boundary, self.progress.stronger, self._next_ns = None, None, NEVER_NS
        self._sessions.clear()

    def _abandon(self) -> None:
        """Runs in the child of a fork."""
        self.progress.boundary = None
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.end()

    def _end_lines(self, steps: int, at: int) -> None:
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            tracer.end()
            self.recorder.event(
                "window", "lines", self._start_ns, at,
                steps=max(steps - self._since, 0), last_step_ns=at, lines=costliest_lines(tracer),
            )  # fmt: skip
        self._schedule(now())

    def _close(self) -> None:
        if self._sessions:
            self._end_profile(self.progress.steps, now())
        elif self._tracer is not None:
            self._end_lines(self.progress.steps, now())
