"""The result of one call, operator or subscript on known values: shapes of arrays, data sets. Follows no name.

Knows NumPy, TensorFlow and Keras. The caller passes a function that evaluates the operands.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import Source
from slowtrain.values import dataclass

Shape = tuple[int | None, ...]
Evaluate = Callable[[ast.expr], Any]
# Functions whose first argument, or ``shape_of``/``size``, is the shape; the next table has those with a later one.
SHAPED_FUNCTIONS = frozenset(
    "zeros ones empty full random random_sample standard_normal normal uniform truncated_normal integers randint "
    "poisson binomial choice exponential beta gamma weibull geometric rand randn".split()
)
SHAPE_POSITIONS = {"normal": 2, "uniform": 2, "integers": 2, "randint": 2, "poisson": 1, "binomial": 2, "choice": 1,
         "exponential": 1, "beta": 2, "gamma": 2, "weibull": 1, "geometric": 1}  # fmt: skip
# Functions that keep their first argument's shape.
SAME_SHAPE_FUNCTIONS = frozenset(
    "astype copy round clip asarray array constant convert_to_tensor cast tensor sqrt abs cumsum cumprod exp tanh sin "
    "cos log log1p sign sigmoid nan_to_num float32 zeros_like ones_like sort square".split()
)
BROADCAST_FUNCTIONS = frozenset({"maximum", "minimum", "where"})  # broadcast all arguments
ONE_AXIS_FUNCTIONS = frozenset({"arange", "linspace", "frombuffer"})
REDUCTIONS = frozenset("sum mean max min std var any all median prod argmax argmin reduce_sum reduce_mean".split())
# Training and test samples of Keras's own data sets.
KERAS_DATASET_ROWS = {"mnist": (60_000, 10_000), "fashion_mnist": (60_000, 10_000), "cifar10": (50_000, 10_000),
        "cifar100": (50_000, 10_000), "imdb": (25_000, 25_000), "reuters": (8_982, 2_246),
        "boston_housing": (404, 102), "california_housing": (16_512, 4_128)}  # fmt: skip
# The shape of one sample, of data sets whose samples have equal shapes.
KERAS_SAMPLE_SHAPES = {
    "mnist": (28, 28), "fashion_mnist": (28, 28), "cifar10": (32, 32, 3), "cifar100": (32, 32, 3),
    "boston_housing": (13,), "california_housing": (8,),
}  # fmt: skip
DATASET_OPERATIONS = frozenset(
    "cache shuffle prefetch map with_options repeat skip take".split()
)  # operations of data sets
TEXT_READERS = {
    "loads": "json.loads",
    "literal_eval": "ast.literal_eval",
}  # parsers of settings in a text
INTEGER_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


@dataclass(frozen=True)
class ArrayValue:
    """An array of this shape, or a list that is built in a loop; its first size is a minimum."""

    shape: Shape
    mask: bool = False  # a boolean mask, which selects an unknown number of items


class TupleValue(list[Any]):
    """A tuple. Arrays in it are components of a sample, while a list of arrays is one more axis."""


def shape_of(found: Any) -> Shape | None:
    """The shape of an evaluated value; None if unknown."""
    if isinstance(found, ArrayValue):
        return found.shape
    if isinstance(found, list):
        inner = shape_of(found[0]) if found else None
        return (len(found), *(inner or ()))
    return None


def operator_result(operator: ast.operator, left: Any, right: Any) -> Any:
    """The result of a binary operation: a number, or an array of the broadcast shape."""
    if is_int(left) and is_int(right):
        plain = INTEGER_OPERATORS.get(type(operator))
        by_zero = right == 0 and isinstance(operator, (ast.FloorDiv, ast.Mod))
        return None if plain is None or by_zero else plain(left, right)
    sides = [s.shape for s in (left, right) if isinstance(s, ArrayValue)]
    if isinstance(operator, ast.MatMult):
        return ArrayValue((*sides[0][:-1], sides[1][-1])) if len(sides) == 2 and len(sides[1]) == 2 else None
    if not sides or not all(s is None or isinstance(s, (int, float, ArrayValue)) for s in (left, right)):
        return None
    found = list(sides[0] if len(sides[0]) >= len(sides[-1]) else sides[-1])
    for one in sides:
        for place in range(1, len(one) + 1):
            a, b = found[-place], one[-place]
            found[-place] = b if a == 1 else a if b in (1, a) else None
    hidden = left is None or right is None  # the unknown side may be larger where the other has size 1
    return ArrayValue(tuple(None if hidden and n == 1 else n for n in found))


def subscript_result(of: Any, at: ast.expr, evaluate: Evaluate) -> Any:
    """The result of a subscript: ``x[0]``, ``settings["rows"]``, ``x[:n]``, ``x[None]``, ``table[ids]``."""
    if isinstance(of, dict):
        key = evaluate(at)
        return of.get(key) if isinstance(key, (str, int)) else None
    if isinstance(of, list):
        place = evaluate(at)
        return of[place] if is_int(place) and -len(of) <= place < len(of) else None
    if not isinstance(of, ArrayValue):
        return None
    parts = at.elts if isinstance(at, ast.Tuple) else [at]
    if any(isinstance(p, ast.Constant) and p.value is Ellipsis for p in parts):
        new = sum(isinstance(p, ast.Constant) and p.value is None for p in parts[1:])
        return ArrayValue((*of.shape, *(1,) * new)) if _is_dots(parts[0]) and 0 < new == len(parts) - 1 else None
    return _indexed_array(list(of.shape), parts, evaluate)


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def _indexed_array(left: list[int | None], parts: Sequence[ast.expr], evaluate: Evaluate) -> ArrayValue | None:
    found: list[int | None] = []
    for one in parts:
        if isinstance(one, ast.Constant) and one.value is None:
            found.append(1)
            continue
        if not left:
            return None
        size = left.pop(0)
        if isinstance(one, ast.Slice):
            found.append(_slice_length(one, size, evaluate))
            continue
        index = evaluate(one)
        if isinstance(index, ArrayValue):
            found += [None] if index.mask else index.shape
            del left[: len(index.shape) - 1 if index.mask else 0]
        elif not is_int(index):
            return None
    return ArrayValue((*found, *left)) if found or left else None


def _slice_length(one: ast.Slice, size: int | None, evaluate: Evaluate) -> int | None:
    """The length of a slice."""
    bounds = [None if b is None else evaluate(b) for b in (one.lower, one.upper, one.step)]
    given = [b is not None for b in (one.lower, one.upper, one.step)]
    if any(there and not is_int(known) for there, known in zip(given, bounds, strict=True)):
        return _window_length(one, evaluate)
    if size is not None:
        return len(range(size)[slice(*bounds)])
    return None  # the slice may be longer than the array


def _window_length(one: ast.Slice, evaluate: Evaluate) -> int | None:
    """``x[at:at + 32]``."""
    if not isinstance(one.upper, ast.BinOp) or not isinstance(one.upper.op, ast.Add) or one.lower is None:
        return None
    same = ast.dump(one.upper.left) == ast.dump(one.lower) and one.step is None
    count = evaluate(one.upper.right) if same else None
    return count if is_int(count) else None


def call_result(source: Source, call: ast.Call, evaluate: Evaluate) -> Any:
    """The result of a call of NumPy, of an array's method, of a Python function of numbers, or of a text parser."""
    how = TEXT_READERS.get(node_lookup.called_name(call))
    if how is not None:
        return (
            _parsed_text(how, evaluate(call.args[0]))
            if call.args and name_bindings.qualified_name(source, call.func) == how
            else None
        )
    found = _array_from_call(source, call, evaluate)
    formats = [k.value for k in call.keywords if k.arg == "dtype"] + call.args[-1:]
    named = (getattr(n, "value", "") if isinstance(n, ast.Constant) else scope_names.dotted_name(n) for n in formats)
    mask = isinstance(found, ArrayValue) and any(str(n).rpartition(".")[2] in ("bool", "bool_") for n in named)
    return replace(found, mask=True) if mask else found


def _parsed_text(how: str, text: Any) -> Any:
    """Settings that the script holds as a text of JSON or Python."""
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text) if how == "json.loads" else ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _array_from_call(source: Source, call: ast.Call, evaluate: Evaluate) -> Any:
    name = node_lookup.called_name(call)
    if isinstance(call.func, ast.Name) and name in ("int", "range", "max", "min", "zip"):
        return _python_result(name, [evaluate(a) for a in call.args])
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or name_bindings.qualified_name(source, call.func):
        owner = None
    if name == "reshape":
        return _array_of_shape(call.args if owner is not None else call.args[1:], evaluate)
    if name in SHAPED_FUNCTIONS and isinstance(call.func, ast.Attribute):
        return _drawn_array(source, call, name, evaluate)
    if name in ONE_AXIS_FUNCTIONS:
        return _counted_array(call, name, evaluate)
    if name not in SAME_SHAPE_FUNCTIONS | BROADCAST_FUNCTIONS | REDUCTIONS | {"expand_dims", "stack"} or not isinstance(
        call.func, ast.Attribute
    ):
        return None
    first = evaluate(owner) if owner is not None else evaluate(call.args[0]) if call.args else None
    if name in ("expand_dims", "stack"):
        return _with_new_axis(call, name, first, evaluate)
    if name in REDUCTIONS:
        return _reduced_array(call, first, owner is not None, evaluate) if isinstance(first, ArrayValue) else None
    if name in BROADCAST_FUNCTIONS:
        if owner is not None or len(call.args) < (3 if name == "where" else 2):
            return None
        found = functools.reduce(lambda a, b: operator_result(ast.Add(), a, b), map(evaluate, call.args))
        return ArrayValue(found.shape) if isinstance(found, ArrayValue) else None
    sizes = shape_of(first)
    return ArrayValue(sizes, isinstance(first, ArrayValue) and first.mask) if sizes else None


def _python_result(name: str, given: Sequence[Any]) -> Any:
    if name == "zip":
        several = [shape_of(one) for one in given]
        return next((ArrayValue(s[:1]) for s in several if s and s[0] is not None), None)
    if not given or not all(map(is_int, given)):
        return None
    if name == "range":
        return ArrayValue((len(range(*given)),)) if 0 not in given[2:] and len(given) < 4 else None
    if name == "int":
        return given[0]
    return (max if name == "max" else min)(given) if len(given) > 1 else None


def _counted_array(call: ast.Call, name: str, evaluate: Evaluate) -> ArrayValue | None:
    if name == "arange":
        found = _python_result("range", [evaluate(a) for a in call.args])
        return found if isinstance(found, ArrayValue) else None
    if name == "frombuffer":
        return ArrayValue((None,))
    given = node_lookup.argument_value(call, "num", 2)
    count = evaluate(given) if given is not None else 50
    return ArrayValue((count,)) if is_int(count) else None


def _drawn_array(source: Source, call: ast.Call, name: str, evaluate: Evaluate) -> ArrayValue | None:
    if name in ("rand", "randn"):
        return _array_of_shape(call.args, evaluate)
    whole = name_bindings.qualified_name(source, call.func)
    later = 0 if whole.startswith(("tensorflow.", "keras.")) else SHAPE_POSITIONS.get(name, 0)
    given = node_lookup.argument_value(call, "size") or node_lookup.argument_value(call, "shape", later)
    if given is None and name == "poisson" and call.args:
        of = evaluate(call.args[0])
        return of if isinstance(of, ArrayValue) else None
    return _array_of_shape([given], evaluate) if given is not None else None


def _array_of_shape(sizes: Sequence[ast.expr], evaluate: Evaluate) -> ArrayValue | None:
    """An array whose shape is given as a tuple, a number, or several arguments."""
    if not sizes:
        return None
    found = [evaluate(s) for s in sizes]
    if len(sizes) == 1 and isinstance(found[0], list):
        found = found[0]
    plain = tuple(n if is_int(n) and n >= 0 else None for n in found)
    known = any(n is not None for n in plain) or len(sizes) > 1 or isinstance(sizes[0], (ast.Tuple, ast.List))
    return ArrayValue(plain) if known else None


def _with_new_axis(call: ast.Call, name: str, first: Any, evaluate: Evaluate) -> ArrayValue | None:
    axis = node_lookup.argument_value(call, "axis", 1)
    at = evaluate(axis) if axis is not None else 0 if name == "stack" else None
    if name == "stack":
        inner = shape_of(first)
        if inner is None or not is_int(at) or not isinstance(first, (list, ArrayValue)):
            return None
        rest = list(inner[1:])
        place = at if at >= 0 else len(rest) + 1 + at
        return ArrayValue((*rest[:place], inner[0], *rest[place:])) if 0 <= place <= len(rest) else None
    return ArrayValue((1, *first.shape)) if isinstance(first, ArrayValue) and at == 0 else None


def _reduced_array(call: ast.Call, first: ArrayValue, own: bool, evaluate: Evaluate) -> ArrayValue | None:
    axis = node_lookup.argument_value(call, "axis", 0 if own else 1)
    at = evaluate(axis) if axis is not None else None
    if not is_int(at) or not -len(first.shape) <= at < len(first.shape):
        return None
    left = list(first.shape)
    kept = node_lookup.argument_value(call, "keepdims")
    stays = evaluate(kept) if kept is not None else False
    if not isinstance(stays, bool):
        return None
    if stays:
        left[at] = 1
    else:
        del left[at]
    return ArrayValue(tuple(left)) if left else None


def loads_keras_dataset(source: Source, call: ast.Call) -> bool:
    """Whether a call loads one of Keras's own data sets."""
    return name_bindings.qualified_name(source, call.func).startswith("keras.datasets.")


def keras_dataset_array(source: Source, call: ast.Call, path: Sequence[int]) -> ArrayValue | None:
    """The array at a position of the nested tuple that a data set of Keras returns."""
    name = name_bindings.qualified_name(source, call.func).split(".")[2]
    known = KERAS_DATASET_ROWS.get(name)
    row = KERAS_SAMPLE_SHAPES.get(name, (None,)) if list(path[1:]) == [0] else ()
    return ArrayValue((known[path[0]], *row)) if known and len(path) == 2 and path[0] < 2 else None


def is_int(found: Any) -> TypeGuard[int]:
    """Whether a value is an int and no bool."""
    return isinstance(found, int) and not isinstance(found, bool)


# -- data sets


@dataclass(frozen=True, eq=False)
class DatasetValue:
    """A data set: its number of samples, one element, the batch size, and whether it repeats without end."""

    rows: int | None
    element: Any
    batch: int | None = None
    endless: bool = False
    at: ast.expr | None = None  # where the batch size is given


def new_dataset(call: ast.Call, evaluate: Evaluate) -> DatasetValue | None:
    """The data set that ``from_tensor_slices`` makes."""
    given = evaluate(call.args[0]) if call.args else None
    if node_lookup.called_name(call) != "from_tensor_slices":
        return None
    one = given[0] if isinstance(given, TupleValue) and given else given
    one = next(iter(one.values()), None) if isinstance(one, dict) else one
    found = shape_of(one)
    return DatasetValue(found[0], ArrayValue(found[1:])) if found else DatasetValue(None, None)


def dataset_operation(data: DatasetValue, call: ast.Call, evaluate: Evaluate) -> DatasetValue | None:
    """The data set after one more operation; None if the operation is unknown."""
    name = node_lookup.called_name(call)
    if name == "batch":
        given = node_lookup.argument_value(call, "batch_size", 0)
        size = evaluate(given) if given is not None else None
        return replace(data, batch=size, at=given) if data.batch is None and is_int(size) else None
    if name not in DATASET_OPERATIONS:
        return None
    endless = data.endless or name == "repeat"
    rows = data.rows if name not in ("take", "skip") else None
    return replace(data, rows=rows, element=data.element if name != "map" else None, endless=endless)
