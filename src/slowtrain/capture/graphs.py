"""What a traced function's graph holds: ops by type, number formats of its matrix work, the lines that made its ops."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

from slowtrain.capture import frames

MATRIX = ("MatMul", "BatchMatMul", "Conv", "Einsum", "DepthwiseConv", "CudnnRNN")  # beginnings of op types
LINES_FROM = 150  # ops; where a smaller graph comes from is of no interest
SAMPLED = 200  # ops of a graph whose line is looked up: an op's stack takes some 30 µs to read
TYPES = 40


class GraphSummary:
    """Sums up the graph of a function and the graphs of the functions inside it."""

    def __init__(self) -> None:
        self.ops = 0
        self.types: Counter[str] = Counter()
        self.matrix: Counter[str] = Counter()
        self.lines: Counter[tuple[str, int]] = Counter()

    def add(self, graph: Any) -> None:
        ops = graph.get_operations()
        self.ops += len(ops)
        kinds = [op.type for op in ops]
        self.types.update(kinds)
        self.matrix.update(op.outputs[0].dtype.name for op, kind in zip(ops, kinds) if kind.startswith(MATRIX))
        if len(ops) >= LINES_FROM:
            stride = -(-len(ops) // SAMPLED)
            for op in ops[::stride]:
                # Gradients come from the line that asks for them, whatever they are gradients of.
                place = None if "gradient_tape" in op.name else _user_line(op.traceback)
                if place is not None:
                    self.lines[place] += stride

    def facts(self) -> dict[str, Any]:
        """As JSON: ``lines`` are ``[file, line, ops]``, most first."""
        return {
            "ops": self.ops,
            "types": dict(self.types.most_common(TYPES)),
            "matrix": dict(self.matrix),
            "lines": [[file, line, count] for (file, line), count in self.lines.most_common(12)],
        }


def _user_line(stack: Iterable[Any]) -> tuple[str, int] | None:
    """The innermost line of the user's in the stack that made an op."""
    for frame in reversed(list(stack)):
        if _is_user(frame.filename):
            return frame.filename, frame.lineno
    return None


@functools.lru_cache(maxsize=4096)
def _is_user(file: str) -> bool:
    """Like :func:`frames.is_user`, for what has no code object any more."""
    made = file.startswith("<") or "__autograph_generated_file" in file
    return not made and not os.path.realpath(file).startswith(frames._LIBRARY)
