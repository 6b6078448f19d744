"""How many numbers of the variables are subnormal, and what such numbers cost here, as measured in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from slowtrain.capture.recorder import Recorder
from slowtrain.capture.variables import State

LEAST_SHARE = 0.001  # below it nothing could come of it, and the cost is not measured
DUTY = 100  # one per cent of a core at most
SIZE = 1_000_000  # numbers of the measurement: shared out to TensorFlow's threads, as large variables are
REPEATS = 15


class Subnormals:
    """Variables are offered by the training thread, and looked at in the recorder's: their values never change."""

    def __init__(self, recorder: Recorder, suspect: Callable[[], None], names: Mapping[int, str]) -> None:
        self.recorder = recorder
        self.names = names  # of variables, by their number in the state
        self.suspect = suspect  # called where a variable is not finite: the loss may be all the same, behind a relu
        self.share = -1.0
        self._offered: State | None = None
        self._next_s = 0.0
        self._finite: set[int] = set()  # variables that were so

    def offer(self, state: State) -> None:
        self._offered = state

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self.look()

    def look(self) -> None:
        """At the newest state; the largest share is what is told."""
        state, self._offered = self._offered, None
        if state is None:
            return
        begun = time.monotonic()
        import numpy as np

        values = few = 0
        most, where = 0, ""  # the variable with the most of them
        for key, (_, value) in state.items():
            if value.dtype.name == "float32":
                array = np.asarray(value._numpy())
                values += array.size
                mine = subnormal(array, np)
                few += mine
                if mine > most:
                    most, where = mine, f"{self.names.get(key, 'a variable')} of {array.size:,} numbers"
                if np.isfinite(array).all():
                    self._finite.add(key)
                elif key in self._finite:  # what was never finite is meant so: a best loss so far, a mask
                    self.suspect()
        self._next_s = time.monotonic() + DUTY * (time.monotonic() - begun)
        if values and few / values > self.share:
            self.share = few / values
            self.recorder.fact(
                "subnormals", {"share": self.share, "count": few, "of": values, "most": most, "where": where}
            )

    def measure(self) -> None:
        """What they cost, where there are any; in the training thread, at the end."""
        self.look()
        if self.share >= LEAST_SHARE:
            self.recorder.fact("subnormal_cost", cost())


def subnormal(array: Any, numpy: Any) -> int:
    """How many float32 numbers are below the normal range and not zero; told by their bits, at one speed for all."""
    bits = numpy.ascontiguousarray(array).view(numpy.uint32) & 0x7FFFFFFF
    return int(numpy.count_nonzero((bits > 0) & (bits < 0x00800000)))


def cost() -> dict[str, float]:
    """Time of a product of subnormal numbers over that of normal ones: in a function, op by op, and in NumPy."""
    import numpy as np

    tensorflow = sys.modules["tensorflow"]
    usual, small = (np.full(SIZE, x, np.float32) for x in (0.5, 1e-40))
    factor = np.float32(0.9)
    given = {id(a): tensorflow.constant(a) for a in (usual, small)}

    def product(x: Any) -> Any:
        return tensorflow.reduce_max(x * factor)

    function = tensorflow.function(product, autograph=False)
    ways: dict[str, Callable[[Any], Any]] = {
        "function": lambda a: function(given[id(a)])._numpy(),
        "eager": lambda a: product(given[id(a)])._numpy(),
        "numpy": lambda a: a * factor,
    }
    return {name: _least_s(way, small) / _least_s(way, usual) for name, way in ways.items()}


def _least_s(call: Callable[[Any], Any], given: Any) -> float:
    call(given)
    least = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call(given)
        least = min(least, time.perf_counter() - begun)
    return least
