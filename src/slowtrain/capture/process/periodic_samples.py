"""Samples taken at a low rate: the main thread's stack, the machine, the loss."""

from __future__ import annotations

import dis
import math
import sys
import threading
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import Progress, loss_scalars, scalar_value
from slowtrain.capture.inspection import user_code
from slowtrain.capture.process.loss_series import LossSeries

if TYPE_CHECKING:
    from slowtrain.capture.nonfinite.function_replay import NonfiniteCheck
    from slowtrain.machine.samples.sampler import Sampler


class StackSampler:
    """Records the user's line that the main thread is in, and the library call below it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.main = threading.main_thread().ident or 0
        self._codes: list[CodeType] = []
        self._places: dict[object, int] = {}

    def __call__(self) -> None:
        with user_code.paused_collector():
            self._look()

    def _look(self) -> None:
        leaf = sys._current_frames().get(self.main)
        frame = user_code.user_frame(leaf)
        if frame is None or leaf is None:
            return
        key = (id(frame.f_code), frame.f_lasti, id(leaf.f_code) if leaf is not frame else None)
        name = self.recorder.ids.get(key) or self._place_number(key, frame, leaf)
        at = now()
        self.recorder.span(name, at, at, self._places[key])

    def _place_number(self, key: object, frame: FrameType, leaf: FrameType) -> int:
        line = frame.f_lineno or _preceding_line(frame)
        self._codes += [frame.f_code, leaf.f_code]  # keeps the code alive, so that no other code gets its id
        # The instruction, because one line may hold a whole loop; negative if a loop jumps back. At this jump the
        # interpreter releases its lock in a loop without calls, so such a loop is always sampled there.
        self._places[key] = -1 - frame.f_lasti if _is_jumping_back(frame) else frame.f_lasti
        number = self.recorder.name(
            "stack",
            leaf.f_code.co_name,
            ("stack", frame.f_code.co_filename, line, leaf.f_code.co_filename, leaf.f_code.co_firstlineno),
            site=(frame.f_code.co_filename, line),
            within=frame.f_code.co_name,
            leaf_file=leaf.f_code.co_filename,
            via=_callee_file(frame, leaf),
        )
        self.recorder.ids[key] = number
        return number


def _is_jumping_back(frame: FrameType) -> bool:
    """Returns whether the current instruction ends an iteration of a loop (Python 3.10 has only absolute jumps)."""
    code, at = frame.f_code.co_code, frame.f_lasti
    name = dis.opname[code[at]] if 0 <= at < len(code) else ""
    return "JUMP_BACKWARD" in name or "JUMP_ABSOLUTE" in name


def _preceding_line(frame: FrameType) -> int:
    """Returns the last line before an instruction without a line of its own, such as the jump at the end of a loop."""
    line = frame.f_code.co_firstlineno
    for start, _, number in frame.f_code.co_lines():
        if start > frame.f_lasti:
            break
        line = number or line
    return line


def _callee_file(frame: FrameType, leaf: FrameType) -> str:
    """Returns the file of the function that the user's line called, such as Keras' own code.

    The other thread may continue meanwhile. A frame that has returned has no caller any more.
    """
    below, above = leaf, leaf.f_back
    while below is not frame and above is not None and above is not frame:
        below, above = above, above.f_back
    return below.f_code.co_filename


class MachineSampler:
    """Records facts about the machine once, then its figures.

    Runs in the recorder's thread, after the script's start.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._sampler: Sampler | None = None

    def __call__(self) -> None:
        if self._sampler is None:
            from slowtrain.machine.host.host_facts import machine_facts
            from slowtrain.machine.samples.sampler import Sampler

            self.recorder.fact("machine", machine_facts())
            self._sampler = Sampler()
        self.recorder.sample(self._sampler.sample())


class LossWatch:
    """Reads the newest step's result a few times a second, outside the step: is it NaN or infinite, and its loss.

    Whether there was ever a result to examine is a fact of the recording. Nothing is known of steps that return none.
    """

    FIRST = 40  # looks that are taken at every tick, because training may last only a second

    def __init__(self, recorder: Recorder, progress: Progress, checking: NonfiniteCheck | None = None) -> None:
        self.recorder = recorder
        self.progress = progress
        self.checking = checking
        self.found = False
        self.seen = LossSeries(recorder)
        self._seen = False
        self._first = self.FIRST
        progress.wanted = True  # the very first step, because no other look may come before the end
        recorder.fact("loss_seen", False)

    def look_early(self) -> None:
        """Called more often than the watch itself. Does its work while training is young."""
        if self._first and self.progress.steps:
            self._first -= 1
            self()

    def __call__(self) -> None:
        place = self.progress.last_place  # read first, because a step may keep its result as soon as it is wanted
        scalars, self.progress.last_scalars = self.progress.last_scalars, []
        steps = self.progress.steps
        self.progress.wanted = not self.found
        if scalars and not self._seen:
            self._seen = True
            self.recorder.fact("loss_seen", True)
        numbers: dict[str, float] = {}
        for name, value in loss_scalars(scalars) if not self.found else ():  # a step may be about to keep more
            if self.checking is not None and not hasattr(value, "_numpy_internal"):
                return  # a step on JAX, whose results checked_jax examines
            number = scalar_value(value)
            if number is None:  # the host runs ahead of the device: the same result is examined next time
                self.progress.last_scalars, self.progress.wanted = scalars, False
                self.progress.last_place = place
                return
            if not math.isfinite(number):
                self.found, self.progress.wanted = True, False
                if self.checking is not None:
                    self.checking.suspect()
                self.recorder.event("nonfinite", name, now(), step=steps, value=repr(number))
                return
            numbers[name] = number
        self.seen.note(place, numbers)
