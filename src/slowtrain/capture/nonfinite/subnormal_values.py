"""Finds subnormal numbers in variables and in NumPy arrays, and measures what they cost on this computer.

The arrays are those that the main thread multiplies or divides at frequently sampled lines. The recorder's thread
searches them. The cost of such numbers is measured at the end of the run, if any were found.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.inspection import container_contents, user_code
from slowtrain.capture.jax import keras_backend as on_jax

MIN_LINE_HITS = 2  # times that a line is sampled before its arrays are read; then twice as many, and so on
# If reading copies a function's variables: only at lines whose arithmetic takes seconds.
MIN_LINE_HITS_COPIED = 16
MIN_ARRAY_NUMBERS = 4096  # numbers of an array; smaller ones take no time
MAX_SAMPLED_NUMBERS = 65_536  # numbers of one array
MAX_MEASURED_NUMBERS = 250_000  # numbers; one measurement takes some ten milliseconds
MAX_LINES = 8
MAX_LIST_ARRAYS = 8  # arrays of one list
MAX_SOURCE_CHARACTERS = 300_000  # characters of a file that is parsed
ARITHMETIC_OPS = (ast.Mult, ast.Div)


class ArithmeticWatch:
    """Called every few ticks of the recorder's thread. Nearly always there is nothing to read."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.main = threading.main_thread().ident or 0
        self._met: dict[tuple[int, int], int] = {}  # by the id of the code, because its hash covers all its contents
        self._trees: dict[str, ast.Module | None] = {}
        self._facts_by_line: dict[tuple[str, int], dict[str, Any]] = {}
        recorder.at_exit.append(self.measure)

    def __call__(self) -> None:
        with user_code.paused_collector():
            frame = sys._current_frames().get(self.main)
            if frame is None or not user_code.is_user_code(frame.f_code):
                return  # in a library's Python code; the arithmetic of an array has none
            place = id(frame.f_code), frame.f_lineno
            if place[1] is None:  # an instruction that the compiler added has no line
                return
            count = self._met[place] = self._met.get(place, 0) + 1
            if (
                count >= (MIN_LINE_HITS_COPIED if user_code.copies_variables(frame) else MIN_LINE_HITS)
                and count & (count - 1) == 0
            ):
                self._look(frame, place[1])

    def _look(self, frame: FrameType, line: int) -> None:
        file = frame.f_code.co_filename
        found = list(arithmetic_operands(self._tree(file), line))
        if not found:
            return
        local = frame.f_locals
        for text, operand in found:
            for array in _operand_arrays(operand, local, frame.f_globals):
                self._note(file, line, text, array)
        user_code.release_variables(frame, local)

    def _note(self, file: str, line: int, text: str, array: Any) -> None:
        import numpy as np

        part = array.reshape(-1)[:: max(1, array.size // MAX_SAMPLED_NUMBERS)]
        share = count_subnormal(part, np) / part.size
        known = self._facts_by_line.get((file, line))
        if share < MIN_SUBNORMAL_SHARE or (known is not None and share <= known["share"]):
            return
        if known is not None or len(self._facts_by_line) < MAX_LINES:
            about = {"name": text, "share": share, "size": int(array.size), "dtype": array.dtype.name}
            self._facts_by_line[file, line] = {"file": file, "line": line, **about}
            self.recorder.fact("subnormal_arrays", list(self._facts_by_line.values()))

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            text = "".join(linecache.getlines(file))
            try:
                self._trees[file] = ast.parse(text) if len(text) <= MAX_SOURCE_CHARACTERS else None
            except (SyntaxError, ValueError):
                self._trees[file] = None
        return self._trees[file]

    def measure(self) -> None:
        """Measures the cost in the thread that ends the recording, which is the one that trains."""
        costs: dict[tuple[str, int], float] = {}
        for one in self._facts_by_line.values():
            kind = one["dtype"], min(one["size"], MAX_MEASURED_NUMBERS)
            if kind not in costs:
                costs[kind] = subnormal_cost_in_numpy(*kind)
            one["cost"] = costs[kind]
        if self._facts_by_line:
            self.recorder.fact("subnormal_arrays", list(self._facts_by_line.values()))


def arithmetic_operands(tree: ast.Module | None, line: int) -> Iterator[tuple[str, ast.expr]]:
    """Yields the operands that are multiplied or divided at a line: source text and expression."""
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, (ast.AugAssign, ast.BinOp)) or not isinstance(node.op, ARITHMETIC_OPS):
            continue
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            sides = [node.target, node.value] if isinstance(node, ast.AugAssign) else [node.left, node.right]
            yield from ((ast.unparse(side), side) for side in sides)


def _operand_arrays(operand: ast.expr, *scopes: Mapping[str, Any]) -> Iterable[Any]:
    """Returns the array of a name or an attribute; for a subscript the whole array, for a list its first arrays.

    No method of the user's is called.
    """
    value = _operand_value(operand, scopes)
    several = value[:MAX_LIST_ARRAYS] if type(value) is list or type(value) is tuple else [value]
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return [
        a
        for a in several
        if type(a) is kind and a.dtype.name in SUBNORMAL_VALUES and a.size >= MIN_ARRAY_NUMBERS and a.flags.c_contiguous
    ]


def _operand_value(operand: ast.expr, scopes: Sequence[Mapping[str, Any]]) -> Any:
    if isinstance(operand, ast.Subscript):
        return _operand_value(operand.value, scopes)
    if isinstance(operand, ast.Name):
        return next((names[operand.id] for names in scopes if operand.id in names), None)
    if isinstance(operand, ast.Attribute):
        of = _operand_value(operand.value, scopes)
        known = container_contents.instance_fields(of, type(of))
        return known.get(operand.attr) if type(known) is dict else None
    return None


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
            facts = {"share": self.share, "count": few, "of": values, "most": most, "where": where}
            self.recorder.fact("subnormals", facts | {"way": offered.way})

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

    def product(values: Any) -> None:
        np.multiply(values, factor, out=out)

    return _fastest_s(product, small) / _fastest_s(product, usual)


def _tensorflow_products(*arrays: Any) -> dict[str, Callable[[Any], Any]]:
    tensorflow = sys.modules["tensorflow"]
    tensors = {id(a): tensorflow.constant(a) for a in arrays}

    def product(x: Any) -> Any:
        return tensorflow.reduce_max(x * 0.9)

    function = tensorflow.function(product, autograph=False)
    return {
        "function": lambda a: function(tensors[id(a)])._numpy(),
        "eager": lambda a: product(tensors[id(a)])._numpy(),
    }


def _jax_products(*arrays: Any) -> dict[str, Callable[[Any], Any]]:
    jax = sys.modules["jax"]
    device_arrays = {id(a): jax.numpy.asarray(a) for a in arrays}

    def product(x: Any) -> Any:
        return (x * 0.9).max()

    function = jax.jit(product)
    return {
        "function": lambda a: float(function(device_arrays[id(a)])),
        "eager": lambda a: float(product(device_arrays[id(a)])),
    }


def _fastest_s(call: Callable[[Any], Any], argument: Any) -> float:
    call(argument)
    least = float("inf")
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call(argument)
        least = min(least, time.perf_counter() - begun)
    return least
