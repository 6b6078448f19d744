"""Finds NumPy arrays with subnormal numbers that the main thread multiplies or divides at frequently sampled lines.

The recorder's thread searches the arrays. If it finds subnormal numbers, the cost of such numbers in NumPy on this
computer is measured at the end (:mod:`slowtrain.capture.nonfinite.subnormal_variables`).
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.inspection import container_contents, user_code
from slowtrain.capture.nonfinite.subnormal_variables import (
    MIN_SUBNORMAL_SHARE,
    SUBNORMAL_VALUES,
    count_subnormal,
    subnormal_cost_in_numpy,
)

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
        self._told: dict[tuple[str, int], dict[str, Any]] = {}
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
        for said, operand in found:
            for array in _operand_arrays(operand, local, frame.f_globals):
                self._note(file, line, said, array)
        user_code.release_variables(frame, local)

    def _note(self, file: str, line: int, said: str, array: Any) -> None:
        import numpy as np

        part = array.reshape(-1)[:: max(1, array.size // MAX_SAMPLED_NUMBERS)]
        share = count_subnormal(part, np) / part.size
        known = self._told.get((file, line))
        if share < MIN_SUBNORMAL_SHARE or (known is not None and share <= known["share"]):
            return
        if known is not None or len(self._told) < MAX_LINES:
            about = {"name": said, "share": share, "size": int(array.size), "dtype": array.dtype.name}
            self._told[file, line] = {"file": file, "line": line, **about}
            self.recorder.fact("subnormal_arrays", list(self._told.values()))

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
        for one in self._told.values():
            kind = one["dtype"], min(one["size"], MAX_MEASURED_NUMBERS)
            if kind not in costs:
                costs[kind] = subnormal_cost_in_numpy(*kind)
            one["cost"] = costs[kind]
        if self._told:
            self.recorder.fact("subnormal_arrays", list(self._told.values()))


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
