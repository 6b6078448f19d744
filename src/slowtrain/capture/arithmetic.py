"""Finds NumPy arrays with subnormal numbers that the main thread multiplies or divides at frequently sampled lines.

The recorder's thread searches the arrays. If it finds subnormal numbers, the cost of such numbers in NumPy on this
computer is measured at the end (:mod:`slowtrain.capture.subnormals`).
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from slowtrain.capture import contents, frames
from slowtrain.capture.recorder import Recorder
from slowtrain.capture.subnormals import LEAST_SHARE, TINY, in_numpy, subnormal

FIRST = 2  # times that a line is sampled before its arrays are read; then twice as many, and so on
# If reading copies a function's variables: only at lines whose arithmetic takes seconds.
FIRST_COPIED = 16
LEAST_SIZE = 4096  # numbers of an array; smaller ones take no time
LOOKED_AT = 65_536  # numbers of one array
MOST_MEASURED = 250_000  # numbers; one measurement takes some ten milliseconds
MOST_LINES = 8
MOST_ITEMS = 8  # arrays of one list
MOST_SOURCE = 300_000  # characters of a file that is parsed
OPS = (ast.Mult, ast.Div)


class ArithmeticWatch:
    """Called every few ticks of the recorder's thread. Nearly always there is nothing to read."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.main = threading.main_thread().ident or 0
        self._met: dict[tuple[int, int], int] = {}  # by the id of the code, because its hash covers all its contents
        self._trees: dict[str, ast.Module | None] = {}
        self._told: dict[tuple[str, int], dict[str, Any]] = {}
        recorder.at_exit.append(self.measure)

    def __call__(self) -> None:
        with frames.uncollected():
            frame = sys._current_frames().get(self.main)
            if frame is None or not frames.is_user(frame.f_code):
                return  # in a library's Python code; the arithmetic of an array has none
            place = id(frame.f_code), frame.f_lineno
            if place[1] is None:  # an instruction that the compiler added has no line
                return
            count = self._met[place] = self._met.get(place, 0) + 1
            if count >= (FIRST_COPIED if frames.copies(frame) else FIRST) and count & (count - 1) == 0:
                self._look(frame, place[1])

    def _look(self, frame: FrameType, line: int) -> None:
        file = frame.f_code.co_filename
        found = list(operands(self._tree(file), line))
        if not found:
            return
        local = frame.f_locals
        for said, operand in found:
            for array in _arrays(operand, local, frame.f_globals):
                self._note(file, line, said, array)
        frames.let_go(frame, local)

    def _note(self, file: str, line: int, said: str, array: Any) -> None:
        import numpy as np

        part = array.reshape(-1)[:: max(1, array.size // LOOKED_AT)]
        share = subnormal(part, np) / part.size
        known = self._told.get((file, line))
        if share < LEAST_SHARE or (known is not None and share <= known["share"]):
            return
        if known is not None or len(self._told) < MOST_LINES:
            about = {"name": said, "share": share, "size": int(array.size), "dtype": array.dtype.name}
            self._told[file, line] = {"file": file, "line": line, **about}
            self.recorder.fact("subnormal_arrays", list(self._told.values()))

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            text = "".join(linecache.getlines(file))
            try:
                self._trees[file] = ast.parse(text) if len(text) <= MOST_SOURCE else None
            except (SyntaxError, ValueError):
                self._trees[file] = None
        return self._trees[file]

    def measure(self) -> None:
        """Measures the cost in the thread that ends the recording, which is the one that trains."""
        costs: dict[tuple[str, int], float] = {}
        for one in self._told.values():
            kind = one["dtype"], min(one["size"], MOST_MEASURED)
            if kind not in costs:
                costs[kind] = in_numpy(*kind)
            one["cost"] = costs[kind]
        if self._told:
            self.recorder.fact("subnormal_arrays", list(self._told.values()))


def operands(tree: ast.Module | None, line: int) -> Iterator[tuple[str, ast.expr]]:
    """Yields the operands that are multiplied or divided at a line: source text and expression."""
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, (ast.AugAssign, ast.BinOp)) or not isinstance(node.op, OPS):
            continue
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            sides = [node.target, node.value] if isinstance(node, ast.AugAssign) else [node.left, node.right]
            yield from ((ast.unparse(side), side) for side in sides)


def _arrays(operand: ast.expr, *scopes: Mapping[str, Any]) -> Iterable[Any]:
    """Returns the array of a name or an attribute; for a subscript the whole array, for a list its first arrays.

    No method of the user's is called.
    """
    value = _value(operand, scopes)
    several = value[:MOST_ITEMS] if type(value) is list or type(value) is tuple else [value]
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return [
        a for a in several if type(a) is kind and a.dtype.name in TINY and a.size >= LEAST_SIZE and a.flags.c_contiguous
    ]


def _value(operand: ast.expr, scopes: Sequence[Mapping[str, Any]]) -> Any:
    if isinstance(operand, ast.Subscript):
        return _value(operand.value, scopes)
    if isinstance(operand, ast.Name):
        return next((names[operand.id] for names in scopes if operand.id in names), None)
    if isinstance(operand, ast.Attribute):
        of = _value(operand.value, scopes)
        known = contents.fields(of, type(of))
        return known.get(operand.attr) if type(known) is dict else None
    return None
