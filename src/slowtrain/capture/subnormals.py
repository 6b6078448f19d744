"""How many numbers of the variables are subnormal, and what such numbers cost here, as measured in this process."""

from __future__ import annotations

import threading
import time
from typing import Any

from slowtrain.capture.recorder import Recorder
from slowtrain.capture.variables import State

LEAST_SHARE = 0.001  # of a variable: below it the cost is not measured, for nothing could come of it
DUTY = 100  # one per cent of a core at most
SIZE = 65_536  # numbers of the measurement: they fit a core's cache
REPEATS = 15


class Subnormals:
    """Variables are offered by the training thread, and looked at in the recorder's: their values never change."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._offered: State | None = None
        self._next_s = 0.0
        self.seen: dict[str, float] = {}
        self.cost: dict[str, float] | None = None

    def offer(self, state: State) -> None:
        self._offered = state

    def __call__(self) -> None:
        state, self._offered = self._offered, None
        if state is None or time.monotonic() < self._next_s:
            return
        begun = time.monotonic()
        import numpy

        values = few = 0
        for _, value in state.values():
            if value.dtype.name == "float32":
                array = numpy.asarray(value._numpy())
                values += array.size
                few += subnormal(array, numpy)
        self._next_s = time.monotonic() + DUTY * (time.monotonic() - begun)
        if not values:
            return
        share = few / values
        if share > self.seen.get("share", -1.0):
            self.seen = {"share": share, "count": float(few), "of": float(values)}
            self.recorder.fact("subnormals", {**self.seen, "looks": self.seen.get("looks", 0)})


def subnormal(array: Any, numpy: Any) -> int:
    """How many float32 numbers are below the normal range and not zero; told by their bits, at one speed for all."""
    bits = numpy.ascontiguousarray(array).view(numpy.uint32) & 0x7FFFFFFF
    return int(numpy.count_nonzero((bits > 0) & (bits < 0x00800000)))


def _threads() -> int:
    return threading.active_count()
