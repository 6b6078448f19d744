"""How many numbers of the variables are subnormal, and what such numbers cost here, as measured in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from slowtrain.capture import jax as on_jax
from slowtrain.capture.recorder import Recorder

LEAST_SHARE = 0.001  # below it nothing could come of it, and the cost is not measured
DUTY = 100  # one per cent of a core at most
SIZE = 1_000_000  # numbers of the measurement: shared out to the framework's threads, as large variables are
REPEATS = 15
BITS = {4: ("uint32", 0x7FFFFFFF, 0x00800000), 8: ("uint64", 0x7FFFFFFFFFFFFFFF, 0x0010000000000000)}
TINY = {"float32": 1e-40, "float64": 1e-310}


class Offered(NamedTuple):
    """Variables at one moment: each by a key, with what it holds last; ``way`` is how the loop computes with them.

    ``suspect`` is told the key of one that is not finite and was so: the loss may be all the same, behind a relu.
    """

    state: Mapping[int, tuple[Any, Any]]
    names: Mapping[int, str]
    way: str
    suspect: Callable[[int], None] | None = None


class Subnormals:
    """Variables are offered by the training thread, and looked at in the recorder's: their values never change."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.share = -1.0
        self._offered: Offered | None = None
        self._next_s = 0.0
        self._finite: set[int] = set()  # variables that were so

    def offer(self, offered: Offered) -> None:
        self._offered = offered

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self.look()

    def look(self) -> None:
        """At the newest state; the largest share is what is told."""
        offered, self._offered = self._offered, None
        if offered is None:
            return
        begun = time.monotonic()
        import numpy as np

        values = few = 0
        most, where = 0, ""  # the variable with the most of them
        for key, (_, value) in offered.state.items():
            if value.dtype.name == "float32":
                array = np.asarray(value._numpy() if hasattr(value, "_numpy") else value)
                values += array.size
                mine = subnormal(array, np)
                few += mine
                if mine > most:
                    most, where = mine, f"{offered.names.get(key, 'a variable')} of {array.size:,} numbers"
                if np.isfinite(array).all():
                    self._finite.add(key)
                elif key in self._finite and offered.suspect is not None:
                    offered.suspect(key)  # what was never finite is meant so: a best loss so far, a mask
        self._next_s = time.monotonic() + DUTY * (time.monotonic() - begun)
        if values and few / values > self.share:
            self.share = few / values
            told = {"share": self.share, "count": few, "of": values, "most": most, "where": where}
            self.recorder.fact("subnormals", told | {"way": offered.way})

    def measure(self) -> None:
        """What they cost, where there are any; in the training thread, at the end."""
        self.look()
        if self.share >= LEAST_SHARE:
            self.recorder.fact("subnormal_cost", cost())


def subnormal(array: Any, numpy: Any) -> int:
    """How many float32 or float64 numbers are below the normal range and not zero; by their bits, at one speed."""
    unsigned, magnitude, least = BITS[array.dtype.itemsize]
    bits = numpy.ascontiguousarray(array).view(unsigned) & numpy.array(magnitude, unsigned)
    return int(numpy.count_nonzero((bits > 0) & (bits < least)))


def cost() -> dict[str, float]:
    """Time of a product of subnormal numbers over that of normal ones: in a function, op by op, and in NumPy."""
    import numpy as np

    usual, small = (np.full(SIZE, x, np.float32) for x in (0.5, TINY["float32"]))
    ways = _on_tensorflow(usual, small) if on_jax.at_work() is None else _on_jax(usual, small)
    found = {name: _least_s(way, small) / _least_s(way, usual) for name, way in ways.items()}
    return {**found, "numpy": in_numpy("float32", SIZE)}


def in_numpy(dtype: str, size: int) -> float:
    """The same of arrays of a size, in the calling thread: what NumPy computes there is not handed to others."""
    import numpy as np

    usual, small = (np.full(size, x, dtype) for x in (0.5, TINY[dtype]))
    factor, out = np.array(0.9, dtype), np.empty(size, dtype)

    def product(given: Any) -> None:
        np.multiply(given, factor, out=out)

    return _least_s(product, small) / _least_s(product, usual)


def _on_tensorflow(*arrays: Any) -> dict[str, Callable[[Any], Any]]:
    tensorflow = sys.modules["tensorflow"]
    given = {id(a): tensorflow.constant(a) for a in arrays}

    def product(x: Any) -> Any:
        return tensorflow.reduce_max(x * 0.9)

    function = tensorflow.function(product, autograph=False)
    return {"function": lambda a: function(given[id(a)])._numpy(), "eager": lambda a: product(given[id(a)])._numpy()}


def _on_jax(*arrays: Any) -> dict[str, Callable[[Any], Any]]:
    jax = sys.modules["jax"]
    given = {id(a): jax.numpy.asarray(a) for a in arrays}

    def product(x: Any) -> Any:
        return (x * 0.9).max()

    function = jax.jit(product)
    return {"function": lambda a: float(function(given[id(a)])), "eager": lambda a: float(product(given[id(a)]))}


def _least_s(call: Callable[[Any], Any], given: Any) -> float:
    call(given)
    least = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call(given)
        least = min(least, time.perf_counter() - begun)
    return least
