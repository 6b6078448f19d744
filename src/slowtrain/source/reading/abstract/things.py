"""Operations on abstract values: items, attributes, lengths and arithmetic."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from slowtrain.source import FUNCTIONS
from slowtrain.source.reading.abstract.values import (
    NOTHING,
    UNKNOWN,
    Shape,
    Value,
    formatted,
    joined,
    number,
    sequence,
    widest,
)

CONSTANTS = frozenset({"numpy.pi", "math.pi", "numpy.e", "math.e"})
MANY_COLUMNS = 256  # a longer vector is more likely one number per row
MOST_DIGITS = 1 << 62
MOST_POWER = 64
MOST_TEXT = 18  # digits of a number that is parsed from a text
FEW = 64  # distinct numbers, each of which may be traced once
TENSORS = ("tensor", "variable")
IN_GRAPHS = frozenset({"call", "train_step", "test_step", "predict_step"})


def length(items: Value) -> int | None:
    """The number of items, which is the number of turns of a loop over it; None if unknown."""
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


def least(items: Value) -> int | None:
    """The minimum number of items or, of a text, of letters; None if unknown."""
    if isinstance(items.known, str):
        return len(items.known)
    known = items.data if items.kind in ("list", "dict", "text", "range", "rows") else None
    return length(items) or (known if isinstance(known, int) else None)


def shuffled(held: Value) -> None:
    """Forgets the positions of a list's or mapping's items, since one was removed; keeps their join."""
    if held.kind in ("list", "dict"):
        inside = joined(held.items.values()).with_(known=NOTHING) if held.items else UNKNOWN
        held.items.clear()
        held.items[None] = inside
        held.shape = None


def item(held: Value, key: Any) -> Value:
    """The value of ``held[key]`` for a key that is a Python value, or not known."""
    if held.kind in ("list", "tuple", "dict"):
        if key is not NOTHING and isinstance(key, (int, str, float, bool)):
            if isinstance(key, int) and key < 0 and held.kind != "dict":
                key += len(held.items)
            if key in held.items:
                return held.items[key].moving(held.varies)
            if None not in held.items or held.kind == "dict":
                return held.items.get(None, UNKNOWN).moving(held.varies)
        return joined(held.items.values()).moving(held.varies) if held.items else UNKNOWN.moving(held.varies)
    if held.kind in ("array", "tensor", "variable"):
        kind = "tensor" if held.kind in TENSORS else "array"
        return held.with_(kind=kind, known=NOTHING, items={}, shape=held.shape[1:] if held.shape else None)
    if held.kind == "unknown":
        return held
    return UNKNOWN.moving(held.varies)


def together(op: ast.operator, left: Value, right: Value) -> Value:
    """The value of a binary operation."""
    left, right = (number("float") if one.name in CONSTANTS else one for one in (left, right))
    varies, ragged = left.varies | right.varies, left.ragged | right.ragged
    for kind in ("tensor", "variable", "array"):
        if kind in (left.kind, right.kind):
            found = widest(left, right)
            if isinstance(op, ast.Div) and kind == "array" and found.startswith(("int", "uint")):
                found = "float64"
            product = isinstance(op, ast.MatMult)
            return Value("array" if kind == "array" else "tensor", varies=varies, ragged=ragged, dtype=found,
                         shape=multiplied(left.shape, right.shape) if product else _shape(left, right))  # fmt: skip
    if "number" in (left.kind, right.kind) and {left.kind, right.kind} <= {"number", "unknown"}:
        known = _computed(op, left.known, right.known) if left.kind == right.kind else NOTHING
        names = {left.name, right.name} if left.kind == right.kind else {""}
        name = "float" if "float" in (left.name, right.name) or isinstance(op, ast.Div) else "int"
        whole = names <= {"int", "bool"} and not isinstance(op, ast.Div)
        sure = name == "float" or whole
        if name == "int" and (_few(op, right) or ("few" in (left.name, right.name) and names <= {"few", "int"})):
            name, sure = "few", True
        if left.kind != right.kind and not sure:
            return UNKNOWN.moving(varies)
        return Value("number", known, varies, name=name if sure else "")
    if left.kind in ("list", "tuple", "text") and isinstance(op, (ast.Add, ast.Mult, ast.Mod)):
        if left.kind == "text":
            return formatted(varies, [left, right])
        both = [*left.items.values(), *(right.items.values() if right.kind == left.kind else ())]
        counts = [least(left), least(right)] if isinstance(op, ast.Add) and left.kind == right.kind == "list" else []
        if None in (*left.items, *right.items) and counts and None not in counts:
            known = sum(n for n in counts if n is not None)
            return Value("list", varies=varies, items={None: joined(both)}, data=known)
        closed = isinstance(op, ast.Add) and left.kind == right.kind and "open" not in (left.data, right.data)
        sure = closed and None not in (*left.items, *right.items)
        return sequence(left.kind, both).moving(varies).with_(data=None if sure else "open")
    return Value(ragged=ragged, varies=varies)


def _shape(left: Value, right: Value) -> tuple[int | None, ...] | None:
    """The shape of arithmetic. An unknown side counts as no larger than the other one, unless that one broadcasts."""
    known = [one.shape for one in (left, right) if one.shape is not None]
    other = left if left.shape is None else right
    if len(known) == 1 and other.kind != "number" and (not known[0] or 1 in known[0] or _of_columns(other, known[0])):
        return None
    return broadcast(known) if known else None


def multiplied(left: Shape | None, right: Shape | None) -> Shape | None:
    """The shape of a matrix product, or of one with a vector."""
    if not left or not right:
        return None
    if len(right) == 1:
        return left[:-1]
    if len(left) == 1:
        return (*right[:-2], right[-1])
    return (*broadcast([left[:-2], right[:-2]]), left[-2], right[-1])


def _of_columns(other: Value, known: tuple[int | None, ...]) -> bool:
    """Whether the side of known shape may hold one number per column, which every row of an array gets."""
    return other.kind == "array" and len(known) == 1 and (known[0] or 0) < MANY_COLUMNS


def broadcast(shapes: Sequence[tuple[int | None, ...]]) -> tuple[int | None, ...]:
    """The broadcast shape of several shapes."""
    longest = max((len(one) for one in shapes), default=0)
    found: list[int | None] = []
    for place in range(-longest, 0):
        there = {one[place] for one in shapes if len(one) >= -place} - {1}
        there = there - {None} or there  # next to a known size it is 1 or the same
        found.append(1 if not there else there.pop() if len(there) == 1 else None)
    return tuple(found)


def _few(op: ast.operator, right: Value) -> bool:
    """Whether it is ``step % 4`` or the like, which has few distinct values."""
    return isinstance(op, ast.Mod) and isinstance(right.known, int) and right.known <= FEW


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    does: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.Div: lambda a, b: a / b,
        ast.FloorDiv: lambda a, b: a // b,
        ast.Mod: lambda a, b: a % b,
        ast.Pow: lambda a, b: a**b if abs(b) < MOST_POWER else NOTHING,
    }
    if left is NOTHING or right is NOTHING or op.__class__ not in does:
        return NOTHING
    try:
        found = does[op.__class__](left, right)
        return found if found is not NOTHING and abs(found) < MOST_DIGITS else NOTHING
    except (ArithmeticError, TypeError, ValueError):
        return NOTHING


def own(one: Value, kind: Value) -> None:
    """Makes a function a method of a class."""
    function = one.of if one.kind == "graph" and one.of is not None else one
    function.of = kind


def called_by_keras(kind: Value, method: Value) -> bool:
    """Whether Keras runs this method of a subclass of its own in a graph."""
    return bool(kind.data) and isinstance(method.node, FUNCTIONS) and method.node.name in IN_GRAPHS


def attribute_of(thing: Value, name: str, depth: int = 6) -> Value | None:
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


def fields(kind: Value, depth: int = 6) -> list[str]:
    """The parameters of a data class's constructor, in order."""
    inherited = [n for b in kind.data if b.kind == "class" for n in fields(b, depth - 1)] if depth else []
    own = (n.target for n in getattr(kind.node, "body", ()) if isinstance(n, ast.AnnAssign))
    return list(dict.fromkeys([*inherited, *(n.id for n in own if isinstance(n, ast.Name))]))
