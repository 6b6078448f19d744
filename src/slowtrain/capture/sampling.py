"""Low-rate samples: the main thread's stack, the machine, the loss."""

from __future__ import annotations

import math
import sys
import threading
from typing import TYPE_CHECKING, Any

from slowtrain.capture import frames
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.state import Progress

if TYPE_CHECKING:
    from slowtrain.machine.sample import Sampler


class StackSampler:
    """Which line of the user's the main thread is in, and which library call under it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.main = threading.main_thread().ident or 0

    def __call__(self) -> None:
        frame = sys._current_frames().get(self.main)
        leaf = frame
        while frame is not None and not frames.is_user(frame.f_code):
            frame = frame.f_back
        if frame is None or leaf is None:
            return
        line = frame.f_lineno or frame.f_code.co_firstlineno  # between two instructions there may be no line
        key = (frame.f_code, line, leaf.f_code if leaf is not frame else None)
        name = self.recorder.ids.get(key) or self.recorder.name(
            "stack",
            leaf.f_code.co_name,
            key,
            site=(frame.f_code.co_filename, line),
            within=frame.f_code.co_name,
            leaf_file=leaf.f_code.co_filename,
        )
        at = now()
        self.recorder.span(name, at, at, frame.f_lasti)  # the instruction: one line may hold a loop of many


class MachineSampler:
    """Facts about the machine once, then its figures; read in the recorder's thread, not while the script starts."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._sampler: Sampler | None = None

    def __call__(self) -> None:
        if self._sampler is None:
            from slowtrain.machine.facts import facts
            from slowtrain.machine.sample import Sampler

            self.recorder.fact("machine", facts())
            self._sampler = Sampler()
        self.recorder.sample(self._sampler.sample())


class LossWatch:
    """Looks at the newest step's result a few times a second, outside the step, for NaN and infinity."""

    def __init__(self, recorder: Recorder, progress: Progress) -> None:
        self.recorder = recorder
        self.progress = progress
        self.found = False

    def __call__(self) -> None:
        result, steps = self.progress.last_result, self.progress.steps
        if result is None or self.found:
            return
        self.progress.last_result = None
        for name, value in _scalars(result):
            if not math.isfinite(value):
                self.found = True
                self.recorder.event("nonfinite", name, now(), step=steps, value=repr(value))
                return


def _scalars(result: Any) -> list[tuple[str, float]]:
    items = list(result.items()) if isinstance(result, dict) else [("result", result)]
    if isinstance(result, (list, tuple)):
        items = [(f"result[{i}]", v) for i, v in enumerate(result[:8])]
    found = []
    for name, value in items[:16]:
        dtype = getattr(value, "dtype", None)
        if getattr(value, "shape", None) == () and getattr(dtype, "is_floating", False):
            found.append((str(name), float(value._numpy_internal())))
    return found
