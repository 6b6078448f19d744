"""Summarises the graph of a traced function: ops by type, dtypes of its matrix work, and operations written by hand.

Tables are matrices in which rows were looked up and whose gradient becomes dense: the gradient of single rows is made
one of the whole table. Variables from which rows are gathered are listed separately, because their gradients may stay
sparse. Operations written by hand are ops of one kind repeated many times in one scope (a loop unrolled into the
graph), with the user's line that makes them, and one-hot rows multiplied by a matrix.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from slowtrain.capture.inspection import user_code

MATRIX_OPS = ("MatMul", "BatchMatMul", "Conv", "Einsum", "DepthwiseConv", "CudnnRNN")  # prefixes of op types
CONVOLUTION_OPS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")  # ops whose arithmetic is counted
MIN_REPEATED_OPS = 24  # equal ops in one scope; fewer do not matter as a loop
MAX_SAMPLED_OPS = 200  # ops of a graph whose line is looked up; reading an op's stack takes some 30 µs
MAX_TYPES = 40
GATHER_OPS = ("GatherV2", "ResourceGather")
LOOP_OPS = ("While", "StatelessWhile")
DENSIFY_OP = "UnsortedSegmentSum"  # converts the gradient of rows (IndexedSlices) into one of the whole table

# Ops that stand for values, not work. Gradients have the line that requests them, whatever they are the gradient of.
_VALUE_OPS = frozenset(
    "Const Placeholder Identity NoOp ReadVariableOp AssignVariableOp VarIsInitializedOp VarHandleOp".split()
)
_OPTIMIZER_SCOPES = r"(?:^|/)(?:sgd|adam\w*|nadam|rm_?sprop|ada\w+|ftrl|lion|lamb|muon|optimizer)(?:_\d+)?/"
_UPDATE_PATTERN = re.compile(_OPTIMIZER_SCOPES, re.IGNORECASE)
_BACKWARD_PATTERN = re.compile(rf"gradient_tape|{_OPTIMIZER_SCOPES}", re.IGNORECASE)
_NUMBER_SUFFIX = re.compile(r"_\d+$")


class GraphSummary:
    """Sums up the graph of a function and the graphs of the functions inside it."""

    def __init__(self) -> None:
        self.ops = 0
        self.types: Counter[str] = Counter()
        self.matrix: Counter[str] = Counter()
        self.repeated: Counter[str] = Counter()
        self.lines: dict[tuple[str, int], list[float]] = {}
        self.chain = 0
        self.one_hot: list[list[Any]] = []
        self.double: list[tuple[str, int]] = []
        self.tables: dict[tuple[int, ...], int] | None = {}  # (rows, columns): rows looked up; None: sizes not known
        self.gathered: dict[tuple[int, ...], int] = {}  # the same for variables
        self.over: list[list[Any]] = []  # ops that take or make something of such a table's size, with their lines
        self.alike: Counter[tuple[int, ...]] = Counter()  # trainable variables, by shape
        self.multiply_adds: int | None = 0  # of the forward pass; None: no fixed batch size, or an unknown op
        self.convolved: float = 0.0  # multiply-adds of the forward pass's convolutions for one sample
        self.weights = 0  # numbers in the trainable variables
        self.loops: list[list[Any]] = []
        self._bodies: dict[str, int] = {}  # ops of an iteration, by body, of loops whose iterations are independent

    def add(self, graph: Any) -> None:
        ops = graph.get_operations()
        self.ops += len(ops)
        kinds = [op.type for op in ops]
        self.types.update(kinds)
        for op, kind in zip(ops, kinds, strict=True):
            if kind.startswith(MATRIX_OPS):
                self._product(op, op.outputs[0].dtype.name)
                if not _BACKWARD_PATTERN.search(op.name) and self.multiply_adds is not None:
                    count = _batch_multiply_adds(op, kind)
                    self.multiply_adds = None if count is None else self.multiply_adds + count
                if kind in CONVOLUTION_OPS and not _BACKWARD_PATTERN.search(op.name):
                    self.convolved += _convolution_multiply_adds(op, kind)
        if type(graph).__name__ == "WhileBodyFuncGraph" and not _carries_state(graph):
            self._bodies[graph.name] = sum(kind not in _VALUE_OPS for kind in kinds)
        self._repetitions([(op, kind) for op, kind in zip(ops, kinds, strict=True) if kind not in _VALUE_OPS])
        for op, kind in zip(ops, kinds, strict=True):
            if kind == DENSIFY_OP:
                self._table(op, op.outputs[0].shape, op.inputs[0].shape)
            if kind in GATHER_OPS and not _BACKWARD_PATTERN.search(op.name):
                self._gather(_variable_shape(op.inputs[0]), op.inputs[1].shape)
            if kind in LOOP_OPS and len(self.loops) < 8:
                self._loop(op)
            if kind == "OneHot" and len(self.one_hot) < 8:
                products = _matrix_product_users(op)
                if products:
                    place = user_line(op.traceback) or (None, 0)
                    self.one_hot.append([op.name, *place, products])
        self._over_tables(zip(ops, kinds, strict=True))
        shapes = [v.shape for v in getattr(graph, "variables", ()) if v.trainable]
        self.weights = max(self.weights, sum(shape.num_elements() or 0 for shape in shapes))
        self.alike |= Counter(tuple(shape.as_list()) for shape in shapes if shape.is_fully_defined())

    def _table(self, op: Any, whole: Any, rows: Any) -> None:
        if whole.rank == 1:
            return  # single numbers picked by an index, not rows of a table
        if not whole.is_fully_defined():
            # The shape of a variable is known or read from it; rows that were looked up before are not a table.
            if _comes_from_variable_shape(op.inputs[2]):
                self.tables = None
        elif whole.rank == 2 and self.tables is not None:
            self.tables[int(whole[0]), int(whole[1])] = int(rows[0] or 0) if rows.rank else 0

    def _over_tables(self, ops: Iterable[tuple[Any, str]]) -> None:
        ops = list(ops) if self.tables else []
        products = {_matrix_shape(one) for op, kind in ops if kind.startswith(MATRIX_OPS) for one in op.inputs}
        tables = set(self.tables or ()) - products  # a matrix product with the table needs every row
        for op, kind in ops if tables else ():
            idle = kind in _VALUE_OPS and kind != "ReadVariableOp"  # which also copies if the variable is written
            if idle or kind == DENSIFY_OP or len(self.over) >= MAX_TYPES or _UPDATE_PATTERN.search(op.name):
                continue
            if not tables.isdisjoint(map(_matrix_shape, (*op.outputs, *op.inputs))):
                place = None if _BACKWARD_PATTERN.search(op.name) else user_line(op.traceback)
                self.over.append([op.name, *(place or (None, 0))])

    def _gather(self, size: tuple[int, ...], indices: Any) -> None:
        if len(size) == 2 and min(size) > 0:
            self.gathered[size] = self.gathered.get(size, 0) + int(indices.num_elements() or 0)

    def _table_rows(self, tables: dict[tuple[int, ...], int]) -> list[list[int]]:
        """Returns rows, columns, rows looked up in all tables of that size, and number of variables of that size."""
        return [[*size, rows, max(self.alike[size], 1)] for size, rows in tables.items()]

    def _loop(self, op: Any) -> None:
        """Adds a loop over elements whose iterations are independent: ``tf.map_fn`` and similar."""
        # suffix of the body in a loop's gradient
        of_a_turn = self._bodies.get(op.get_attr("body").name.removesuffix("_rewritten"))
        if of_a_turn is None or _BACKWARD_PATTERN.search(op.name):
            return
        unstacked = [one.op.inputs[0].shape for one in op.inputs if one.op.type == "TensorListFromTensor"]
        turns = {shape[0] for shape in unstacked if shape.rank}
        place = user_line(op.traceback) or (None, 0)
        self.loops.append([op.name, *place, of_a_turn, turns.pop() if len(turns) == 1 else None])

    def _product(self, op: Any, dtype: str) -> None:
        self.matrix[dtype] += 1
        if dtype == "float64" and len(self.double) < 8 and "gradient_tape" not in op.name:
            place = user_line(op.traceback)
            if place is not None and place not in self.double:
                self.double.append(place)

    def _repetitions(self, working: list[tuple[Any, str]]) -> None:
        forward = [
            (op, _NUMBER_SUFFIX.sub("", op.name))
            for op, kind in working
            if kind != "AddN" and not _BACKWARD_PATTERN.search(op.name)
        ]
        count = Counter(key for _, key in forward)
        alike = {key: n for key, n in count.items() if n >= MIN_REPEATED_OPS}
        if not alike:
            return
        self.repeated.update(alike)
        self.chain = max(self.chain, _longest_chain([op for op, key in forward if key in alike]))
        # Drawn at random, because a loop's ops have a period that a constant stride could match.
        drawn = random.Random(0).sample(forward, min(MAX_SAMPLED_OPS, len(forward)))  # noqa: S311  no secret
        for op, key in drawn:
            place = user_line(op.traceback)
            if place is not None:
                row = self.lines.setdefault(place, [0.0, 0.0])
                row[0] += len(forward) / len(drawn)
                row[1] += len(forward) / len(drawn) if key in alike else 0.0

    def facts(self) -> dict[str, Any]:
        """Returns the facts as JSON. ``lines`` are ``[file, line, ops of the forward pass, repeated ops among them]``,
        most first.

        ``loops`` are ``[name, file, line, ops of an iteration, iterations]``. The number of iterations is None if it
        is the batch size or not known.
        """
        lines = sorted(self.lines.items(), key=lambda item: -item[1][1])[:12]
        return {
            "ops": self.ops,
            "types": dict(self.types.most_common(MAX_TYPES)),
            "matrix": dict(self.matrix),
            "repeated": dict(self.repeated.most_common(MAX_TYPES)),
            "chain": self.chain,
            "lines": [[file, line, round(every), round(alike)] for (file, line), (every, alike) in lines],
            "one_hot": self.one_hot,
            "double": self.double,
            "tables": None if self.tables is None else self._table_rows(self.tables),
            "over": self.over,
            "gathered": self._table_rows(self.gathered),
            "weights": self.weights,
            "multiply_adds": self.multiply_adds,
            "convolved": self.convolved,
            "loops": self.loops,
        }


def _matrix_shape(tensor: Any) -> tuple[int, ...]:
    """Returns the shape of a matrix; empty if it is no matrix, or not known."""
    shape = tensor.shape
    return tuple(shape.as_list()) if shape.rank == 2 and shape.is_fully_defined() else ()


def _comes_from_variable_shape(size: Any, steps: int = 6) -> bool:
    """Returns whether a number comes from the shape of a variable."""
    if size.op.type == "VariableShape":
        return True
    return steps > 0 and any(_comes_from_variable_shape(one, steps - 1) for one in size.op.inputs[:2])


def _variable_shape(tensor: Any) -> tuple[int, ...]:
    """Returns the shape of a variable or of a value read from it, -1 for an unknown dimension; () for anything else."""
    if tensor.dtype.name == "resource":
        from tensorflow.python.ops import handle_data_util

        about = handle_data_util.get_resource_handle_data(tensor)
        return tuple(int(d.size) for d in about.shape_and_type[0].shape.dim) if about.is_set else ()
    if tensor.op.type != "ReadVariableOp" or tensor.shape.rank is None:
        return ()
    return tuple(-1 if d is None else int(d) for d in tensor.shape.as_list())


def _carries_state(body: Any) -> bool:
    """Returns whether an iteration passes numbers on to the next, as in a recurrence or a sum."""
    # What an iteration only reads comes after what it passes on, or is no output at all.
    changed = (o for i, o in zip(body.inputs, body.outputs, strict=False) if o is not i)
    return any(o.dtype.is_floating or (o.dtype.name == "variant" and not _collects_results(o.op)) for o in changed)


def _collects_results(op: Any) -> bool:
    """Returns whether an iteration's result is put into a list of all results.

    Apart from numbers, only such a list is passed on in a loop with independent iterations.
    """
    while op.type == "Identity":
        op = op.inputs[0].op
    return bool(op.type.startswith("TensorList"))


def _longest_chain(ops: list[Any]) -> int:
    """Returns the length of the longest chain of dependent ops in ``ops`` (in creation order).

    A recurrence has a long one.
    """
    depth: dict[str, int] = {}
    for op in ops:
        depth[op.name] = 1 + max((_nearest_depth(source.op, depth, 3) for source in op.inputs), default=0)
    return max(depth.values(), default=0)


def _nearest_depth(op: Any, depth: dict[str, int], left: int) -> int:
    """Returns the depth of ``op``, or of the nearest of ``ops`` among its inputs, a few levels up."""
    if op.name in depth or not left:
        return depth.get(op.name, 0)
    return max((_nearest_depth(source.op, depth, left - 1) for source in list(op.inputs)[:4]), default=0)


def _batch_multiply_adds(op: Any, kind: str) -> int | None:
    """Returns the multiply-adds of a matrix product or convolution for a whole batch; None if the shapes are not
    known.
    """
    inner_at = {"MatMul": 0, "BatchMatMulV2": 0} | dict.fromkeys(CONVOLUTION_OPS, 1)
    if kind not in inner_at:
        return None
    out, one = op.outputs[0].shape, op.inputs[inner_at[kind]].shape
    if not out.is_fully_defined() or not one.is_fully_defined():
        return None
    if kind == "MatMul":
        inner = int(one[0 if op.get_attr("transpose_a") else 1])
    elif kind == "BatchMatMulV2":
        inner = int(one[-2 if op.get_attr("adj_x") else -1])
    else:
        inner = _products_a_result(one, kind)
    return int(out.num_elements()) * inner


def _convolution_multiply_adds(op: Any, kind: str) -> float:
    """Returns the multiply-adds of a convolution for one sample; 0 if the shapes are not known."""
    out, kernel = op.outputs[0].shape, op.inputs[1].shape
    if out.rank is None or not out[1:].is_fully_defined() or not kernel.is_fully_defined():
        return 0.0
    return float(math.prod(out[1:]) * _products_a_result(kernel, kind))


def _products_a_result(kernel: Any, kind: str) -> int:
    """Returns the products for one number of the result: the filter's rows and columns, and channels if they are
    summed.
    """
    return int(math.prod(kernel[:2] if kind == "DepthwiseConv2dNative" else kernel[:-1]))


def _matrix_product_users(op: Any) -> list[str]:
    """Returns the names of the matrix products that use an op's result, directly or after a few reshapes."""
    found, level = [], [op]
    for _ in range(4):
        level = [user for one in level for output in one.outputs for user in output.consumers()][:20]
        found += [one.name for one in level if one.type.startswith(("MatMul", "BatchMatMul", "Einsum"))]
        level = [
            one for one in level if one.type in ("Reshape", "Cast", "Identity", "Transpose", "ExpandDims", "Squeeze")
        ]
    return found[:8]


def user_line(stack: Iterable[Any]) -> tuple[str, int] | None:
    """Returns the user's innermost line in the stack that created an op."""
    for frame in reversed(list(stack)):
        if user_code.is_user_source(frame.filename):
            return frame.filename, frame.lineno
    return None
