"""Counts subnormal numbers in the variables, and measures what they cost on this computer, in this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.jax import keras_backend as on_jax

MIN_SUBNORMAL_SHARE = 0.001  # below this share they have no effect, and the cost is not measured
MIN_PAUSE_FACTOR = 100  # pause after a look, as a multiple of its duration: one per cent of a core at most
# numbers in the measurement; the framework distributes so many over its threads, as with large variables
MEASURED_NUMBERS = 1_000_000
REPEATS = 15
FLOAT_BITS = {4: ("uint32", 0x7FFFFFFF, 0x00800000), 8: ("uint64", 0x7FFFFFFFFFFFFFFF, 0x0010000000000000)}
SUBNORMAL_VALUES = {"float32": 1e-40, "float64": 1e-310}


class OfferedVariables(NamedTuple):
    """Variables at one moment: by key, the pair whose last element is the value. ``way`` is how the loop computes.

    ``suspect`` is called with the key of a variable that was finite and is not any more. The loss may be finite all
    the same, for example behind a relu.
    """

    state: Mapping[int, tuple[Any, Any]]
    names: Mapping[int, str]
    way: str
    suspect: Callable[[int], None] | None = None


class SubnormalWatch:
    """The training thread offers variables, and the recorder's thread reads them. Their values never change."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.share = -1.0
        self._offered: OfferedVariables | None = None
        self._next_s = 0.0
        self._finite: set[int] = set()  # variables that were finite

    def offer(self, offered: OfferedVariables) -> None:
        self._offered = offered

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self.look()

    def look(self) -> None:
        """Reads the newest variables. The largest share is reported."""
        offered, self._offered = self._offered, None
        if offered is None:
            return
        begun = time.monotonic()
        import numpy as np

        values = few = 0
        most, where = 0, ""  # the variable with most of them
        for key, (_, value) in offered.state.items():
            if value.dtype.name == "float32":
                array = np.asarray(value._numpy() if hasattr(value, "_numpy") else value)
                values += array.size
                mine = count_subnormal(array, np)
                few += mine
                if mine > most:
                    most, where = mine, f"{offered.names.get(key, 'a variable')} of {array.size:,} numbers"
                if np.isfinite(array).all():
                    self._finite.add(key)
                elif key in self._finite and offered.suspect is not None:
                    offered.suspect(key)  # what was never finite is intended, for example a best loss so far, or a mask
        self._next_s = time.monotonic() + MIN_PAUSE_FACTOR * (time.monotonic() - begun)
        if values and few / values > self.share:
            self.share = few / values
            told = {"share": self.share, "count": few, "of": values, "most": most, "where": where}
            self.recorder.fact("subnormals", told | {"way": offered.way})

    def measure(self) -> None:
        """Measures the cost of subnormal numbers, if there are any. Runs in the training thread, at the end."""
        self.look()
        if self.share >= MIN_SUBNORMAL_SHARE:
            self.recorder.fact("subnormal_cost", subnormal_cost())


def count_subnormal(array: Any, numpy: Any) -> int:
    """Returns how many float32 or float64 numbers are subnormal.

    Compares bits, so that the time does not depend on values.
    """
    unsigned, magnitude, least = FLOAT_BITS[array.dtype.itemsize]
    bits = numpy.ascontiguousarray(array).view(unsigned) & numpy.array(magnitude, unsigned)
    return int(numpy.count_nonzero((bits > 0) & (bits < least)))


def subnormal_cost() -> dict[str, float]:
    """Returns the time of a product of subnormal numbers over that of normal ones: in a function, eager, in NumPy."""
    import numpy as np

    usual, small = (np.full(MEASURED_NUMBERS, x, np.float32) for x in (0.5, SUBNORMAL_VALUES["float32"]))
    ways = _tensorflow_products(usual, small) if on_jax.active_jax() is None else _jax_products(usual, small)
    found = {name: _fastest_s(way, small) / _fastest_s(way, usual) for name, way in ways.items()}
    return {**found, "numpy": subnormal_cost_in_numpy("float32", MEASURED_NUMBERS)}


def subnormal_cost_in_numpy(dtype: str, size: int) -> float:
    """Returns the same ratio for arrays of a size in NumPy, which computes in the calling thread."""
    import numpy as np

    usual, small = (np.full(size, x, dtype) for x in (0.5, SUBNORMAL_VALUES[dtype]))
    factor, out = np.array(0.9, dtype), np.empty(size, dtype)

    def product(given: Any) -> None:
        np.multiply(given, factor, out=out)

    return _fastest_s(product, small) / _fastest_s(product, usual)


def _tensorflow_products(*arrays: Any) -> dict[str, Callable[[Any], Any]]:
    tensorflow = sys.modules["tensorflow"]
    given = {id(a): tensorflow.constant(a) for a in arrays}

    def product(x: Any) -> Any:
        return tensorflow.reduce_max(x * 0.9)

    function = tensorflow.function(product, autograph=False)
    return {"function": lambda a: function(given[id(a)])._numpy(), "eager": lambda a: product(given[id(a)])._numpy()}


def _jax_products(*arrays: Any) -> dict[str, Callable[[Any], Any]]:
    jax = sys.modules["jax"]
    given = {id(a): jax.numpy.asarray(a) for a in arrays}

    def product(x: Any) -> Any:
        return (x * 0.9).max()

    function = jax.jit(product)
    return {"function": lambda a: float(function(given[id(a)])), "eager": lambda a: float(product(given[id(a)]))}


def _fastest_s(call: Callable[[Any], Any], given: Any) -> float:
    call(given)
    least = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call(given)
        least = min(least, time.perf_counter() - begun)
    return least
