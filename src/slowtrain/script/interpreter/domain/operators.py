"""Operations on abstract values: items, attributes, lengths and arithmetic."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from slowtrain.script.interpreter.domain.abstract_values import (
    NOT_KNOWN,
    UNKNOWN,
    Shape,
    Value,
    floating_dtype,
    formatted_text,
    join_values,
    number_value,
    promoted_dtype,
    sequence_value,
)
from slowtrain.script.text.source_file import FUNCTION_NODES

FLOAT_CONSTANTS = frozenset({"numpy.pi", "math.pi", "numpy.e", "math.e"})
MIN_ROW_COUNT = 256  # a longer vector is more likely one number per row
MAX_KNOWN_NUMBER = 1 << 62
MAX_EXPONENT = 64
MAX_INT_DIGITS = 18  # digits of a number that is parsed from a text
MAX_FEW_NUMBERS = 64  # distinct numbers, each of which may be traced once
TENSOR_KINDS = ("tensor", "variable")
KERAS_GRAPH_METHODS = frozenset({"call", "train_step", "test_step", "predict_step"})


def known_length(items: Value) -> int | None:
    """The number of items, which is the number of iterations of a loop over it; None if unknown."""
    if items.kind in ("range", "rows") and isinstance(items.known, int):
        return items.known
    if isinstance(items.known, str) and not items.varies:
        return len(items.known)
    if items.kind in ("list", "tuple", "dict") and None not in items.items and items.data != "open":
        return len(items.items) or None
    if items.kind in ("array", "tensor", "list") and items.shape:
        return items.shape[0]
    if items.kind == "dataset" and isinstance(items.data, dict):
        turns: int | None = items.data.get("turns")
        return turns
    return None


def minimum_length(items: Value) -> int | None:
    """The minimum number of items or, of a text, of letters; None if unknown."""
    if isinstance(items.known, str):
        return len(items.known)
    known = items.data if items.kind in ("list", "dict", "text", "range", "rows") else None
    return known_length(items) or (known if isinstance(known, int) else None)


def forget_positions(value: Value) -> None:
    """Forgets the positions of a list's or mapping's items, since one was removed; keeps their join."""
    if value.kind in ("list", "dict"):
        inside = join_values(value.items.values()).with_fields(known=NOT_KNOWN) if value.items else UNKNOWN
        value.items.clear()
        value.items[None] = inside
        value.shape = None
        value.data = None if isinstance(value.data, int) else value.data


def item_value(value: Value, key: Any) -> Value:
    """The value of ``value[key]`` for a key that is a Python value, or not known."""
    if value.kind in ("list", "tuple", "dict"):
        if key is not NOT_KNOWN and isinstance(key, (int, str, float, bool)):
            if isinstance(key, int) and key < 0 and value.kind != "dict":
                key += len(value.items)
            if key in value.items:
                return value.items[key].varying_in(value.varies)
            if None not in value.items or value.kind == "dict":
                return value.items.get(None, UNKNOWN).varying_in(value.varies)
        return (
            join_values(value.items.values()).varying_in(value.varies)
            if value.items
            else UNKNOWN.varying_in(value.varies)
        )
    if value.kind in ("array", "tensor", "variable"):
        kind = "tensor" if value.kind in TENSOR_KINDS else "array"
        return value.with_fields(kind=kind, known=NOT_KNOWN, items={}, shape=value.shape[1:] if value.shape else None)
    if value.kind == "unknown":
        return value
    return UNKNOWN.varying_in(value.varies)


def arithmetic_result(op: ast.operator, left: Value, right: Value) -> Value:
    """The value of a binary operation."""
    left = number_value("float") if left.name in FLOAT_CONSTANTS else left
    right = number_value("float") if right.name in FLOAT_CONSTANTS else right
    varies, ragged = left.varies | right.varies, left.ragged | right.ragged
    for kind in ("tensor", "variable", "array"):
        if kind in (left.kind, right.kind):
            found = promoted_dtype(left, right)
            if kind == "array" and (isinstance(op, ast.Div) or "float" in (left.name, right.name)):
                found = floating_dtype(found)
            product = isinstance(op, ast.MatMult)
            return Value("array" if kind == "array" else "tensor", varies=varies, ragged=ragged, dtype=found,
                         shape=matmul_shape(left.shape, right.shape) if product else _arithmetic_shape(left,
                         right))  # fmt: skip
    if "number" in (left.kind, right.kind) and {left.kind, right.kind} <= {"number", "unknown"}:
        known = _computed_number(op, left.known, right.known) if left.kind == right.kind else NOT_KNOWN
        names = {left.name, right.name} if left.kind == right.kind else {""}
        name = "float" if "float" in (left.name, right.name) or isinstance(op, ast.Div) else "int"
        whole = names <= {"int", "bool"} and not isinstance(op, ast.Div)
        sure = name == "float" or whole
        if name == "int" and (_gives_few(op, right) or ("few" in (left.name, right.name) and names <= {"few", "int"})):
            name, sure = "few", True
        if left.kind != right.kind and not sure:
            return UNKNOWN.varying_in(varies)
        return Value("number", known, varies, name=name if sure else "")
    if left.kind in ("list", "tuple", "text") and isinstance(op, (ast.Add, ast.Mult, ast.Mod)):
        if left.kind == "text":
            return formatted_text(varies, [left, right])
        both = [*left.items.values(), *(right.items.values() if right.kind == left.kind else ())]
        counts = (
            [minimum_length(left), minimum_length(right)]
            if isinstance(op, ast.Add) and left.kind == right.kind == "list"
            else []
        )
        if None in (*left.items, *right.items) and counts and None not in counts:
            known = sum(n for n in counts if n is not None)
            return Value("list", varies=varies, items={None: join_values(both)}, data=known)
        closed = isinstance(op, ast.Add) and left.kind == right.kind and "open" not in (left.data, right.data)
        sure = closed and None not in (*left.items, *right.items)
        return sequence_value(left.kind, both).varying_in(varies).with_fields(data=None if sure else "open")
    return Value(ragged=ragged, varies=varies)


def _arithmetic_shape(left: Value, right: Value) -> tuple[int | None, ...] | None:
    """The shape of arithmetic. An unknown side counts as no larger than the other one, unless that one broadcasts."""
    known = [one.shape for one in (left, right) if one.shape is not None]
    other = left if left.shape is None else right
    if (
        len(known) == 1
        and other.kind != "number"
        and (not known[0] or 1 in known[0] or _may_be_per_column(other, known[0]))
    ):
        return None
    return broadcast_shape(known) if known else None


def matmul_shape(left: Shape | None, right: Shape | None) -> Shape | None:
    """The shape of a matrix product, or of one with a vector."""
    if not left or not right:
        return None
    if len(right) == 1:
        return left[:-1]
    if len(left) == 1:
        return (*right[:-2], right[-1])
    return (*broadcast_shape([left[:-2], right[:-2]]), left[-2], right[-1])


def _may_be_per_column(other: Value, known: tuple[int | None, ...]) -> bool:
    """Whether the side of known shape may hold one number per column, which every row of an array gets."""
    return other.kind == "array" and len(known) == 1 and (known[0] or 0) < MIN_ROW_COUNT


def broadcast_shape(shapes: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    """The broadcast shape of several shapes."""
    if len(set(shapes)) == 1:
        return shapes[0]
    longest = max((len(one) for one in shapes), default=0)
    found: list[int | None] = []
    for place in range(-longest, 0):
        there = {one[place] for one in shapes if len(one) >= -place} - {1}
        there = there - {None} or there  # next to a known size it is 1 or the same
        found.append(1 if not there else there.pop() if len(there) == 1 else None)
    return tuple(found)


def _gives_few(op: ast.operator, right: Value) -> bool:
    """Whether it is ``step % 4`` or the like, which has few distinct values."""
    return isinstance(op, ast.Mod) and isinstance(right.known, int) and right.known <= MAX_FEW_NUMBERS


_NUMBER_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda a, b: a**b if abs(b) < MAX_EXPONENT else NOT_KNOWN,
}


def _computed_number(op: ast.operator, left: Any, right: Any) -> Any:
    if left is NOT_KNOWN or right is NOT_KNOWN or op.__class__ not in _NUMBER_OPERATORS:
        return NOT_KNOWN
    try:
        found = _NUMBER_OPERATORS[op.__class__](left, right)
        return found if found is not NOT_KNOWN and abs(found) < MAX_KNOWN_NUMBER else NOT_KNOWN
    except (ArithmeticError, TypeError, ValueError):
        return NOT_KNOWN


def set_owner_class(one: Value, kind: Value) -> None:
    """Makes a function a method of a class."""
    function = one.of if one.kind == "graph" and one.of is not None else one
    function.of = kind


def runs_in_keras_graph(kind: Value, method: Value) -> bool:
    """Whether Keras runs this method of a subclass of its own in a graph."""
    return bool(kind.data) and isinstance(method.node, FUNCTION_NODES) and method.node.name in KERAS_GRAPH_METHODS


def find_attribute(thing: Value, name: str, depth: int = 6) -> Value | None:
    """An attribute of an object or class: its own, its class's, or a base class's. None if not found."""
    if name in thing.items and thing.kind in ("object", "class"):
        return thing.items[name]
    if None in thing.items:
        return UNKNOWN  # an attribute was set by an unknown name
    kind = thing.of if thing.kind == "object" else thing
    found: Value | None = None
    while kind is not None and kind.kind == "class" and found is None and depth:
        found = kind.items.get(name)
        kind = next((b for b in kind.data if b.kind == "class"), None)
        depth -= 1
    if found is None or found.kind not in ("function", "graph") or found.dtype == "staticmethod":
        return found
    return Value("method", name=name, of=found, data=thing, born=thing.born)


def dataclass_fields(kind: Value, depth: int = 6) -> list[str]:
    """The parameters of a data class's constructor, in order."""
    inherited = [n for b in kind.data if b.kind == "class" for n in dataclass_fields(b, depth - 1)] if depth else []
    own = (n.target for n in getattr(kind.node, "body", ()) if isinstance(n, ast.AnnAssign))
    return list(dict.fromkeys([*inherited, *(n.id for n in own if isinstance(n, ast.Name))]))
