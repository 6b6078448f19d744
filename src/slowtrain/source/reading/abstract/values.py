"""What a name may hold while a script runs, as far as its text tells."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOTHING: Any = object()  # of a value that is not known
NONE: frozenset[int] = frozenset()
Shape = tuple[int | None, ...]  # None: a size that the text does not tell
MOST_ITEMS = 256  # told apart of one list, mapping or call
# Number formats by other names.
NAMED = {"float": "float64", "double": "float64", "single": "float32", "int": "int64"}
EACH = -1  # in ``ragged``: each one is of another shape; of which loop's turns is known where one goes through them


@dataclass(eq=False, slots=True)
class Value:
    """One thing that a script holds.

    ``kind``: "number", "text", "none", "array" (NumPy's), "tensor", "variable", "dataset", "graph" (a tf.function),
    "function", "class", "object" (of a class of the script), "keras" (an object of Keras's, ``name`` says of which
    class), "library" (``name`` is its full name), "list", "tuple", "dict", "generator", "method", "range", "rows"
    (items that are made one by one), "field" (of a data class, made by ``of`` for each object) or "unknown".

    ``shape`` of arrays: the sizes that the text tells, None for one that it does not. ``name`` of a text: "counted"
    where a number that is another one in each turn is written in it.

    ``known``: the number, text or truth where the text says it. ``varies``: the loops in whose turns it is another
    one; ``ragged``: those in whose turns its shape is. ``born``: the loops around the place where it was made.

    ``items``: of lists and tuples by place, of mappings and objects by name, None for any. ``of``: the function of a
    method or a graph, the class of an object or a method's function, an item of what is gone through, the model of an
    unknown one called "History", the function that ``np.vectorize`` calls. ``data``: the
    scope of a function, the bases of a class, the object of a method, the settings of a graph. ``stages`` of a data
    set: what makes it, and what is done to it, in order (``events.Stage``).
    """

    kind: str = "unknown"
    known: Any = NOTHING
    varies: frozenset[int] = NONE
    ragged: frozenset[int] = NONE
    born: tuple[int, ...] = ()
    dtype: str = ""
    shape: tuple[int | None, ...] | None = None
    name: str = ""
    node: ast.AST | None = None
    items: dict[Any, Value] = field(default_factory=dict)
    of: Value | None = None
    data: Any = None
    stages: tuple[Any, ...] = ()

    def with_(self, **changed: Any) -> Value:
        """The same with other fields; its items are shared with it."""
        fields = {name: getattr(self, name) for name in self.__slots__} | changed
        return Value(**fields)

    def moving(self, loops: Iterable[int]) -> Value:
        """The same, another one in each turn of these loops."""
        more = self.varies | frozenset(loops)
        return self if more == self.varies else self.with_(varies=more)

    def inside(self, depth: int = 4) -> Iterator[Value]:
        """It and what it holds, arguments of a tf.function as TensorFlow takes them apart."""
        yield self
        if depth and self.kind in ("list", "tuple", "dict", "object"):
            for one in self.items.values():
                yield from one.inside(depth - 1)


@dataclass(frozen=True, eq=False)
class Given:
    """What a call gives, and where it stands."""

    node: ast.AST
    args: Sequence[Value] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)

    @property
    def every(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]

    @functools.cached_property
    def varies(self) -> frozenset[int]:
        return frozenset(v for a in self.every for v in a.varies)

    @functools.cached_property
    def ragged(self) -> frozenset[int]:
        return frozenset(v for a in self.every for v in a.ragged)

    @functools.cached_property
    def deep(self) -> frozenset[int]:
        """The loops in whose turns anything in it is another one."""
        return frozenset(v for a in self.every for i in a.inside(3) for v in i.varies)

    def get(self, name: str, place: int | None = None) -> Value:
        """The argument of this name or at this place; unknown where there is none."""
        if name in self.keywords:
            return self.keywords[name]
        return self.args[place] if place is not None and place < len(self.args) else UNKNOWN


UNKNOWN = Value()
NO_VALUE = Value("none", None)


def constant(known: Any) -> Value:
    if known is None:
        return NO_VALUE
    kind = "text" if isinstance(known, (str, bytes)) else "number" if isinstance(known, (bool, int, float)) else ""
    names = {bool: "bool", int: "int", float: "float"}
    return Value(kind, known, name=names.get(type(known), "")) if kind else UNKNOWN


def number(name: str = "", varies: frozenset[int] = NONE) -> Value:
    """A Python number: ``name`` "int", "float", "bool", "few" (an int of which there are few), or "" for any."""
    return Value("number", name=name, varies=varies)


def formatted(varies: frozenset[int], given: Iterable[Value]) -> Value:
    """A text that numbers and texts are written in."""
    inside = [one for a in given for one in a.inside(1) if one.varies]
    counted = any(one.name == "counted" or (one.kind == "number" and one.name in ("int", "float")) for one in inside)
    return Value("text", varies=varies, name="counted" if counted else "")


def sequence(kind: str, items: Sequence[Value], born: tuple[int, ...] = ()) -> Value:
    """A list or a tuple; of a long one only what its items have in common is kept, and how many there are."""
    if len(items) > MOST_ITEMS:
        return Value(kind, items={None: joined(items[:MOST_ITEMS])}, shape=(len(items),), born=born)
    return Value(kind, items=dict(enumerate(items)), born=born)


def dtype(given: Value) -> str:
    """The number format that an argument names: a text, ``np.float32``, or ``a.dtype``."""
    if given.kind == "text" and isinstance(given.known, str):
        return given.known
    last = given.name.rpartition(".")[2] if given.kind == "library" else ""
    return NAMED.get(last, last)


def sizes(given: Value) -> tuple[int | None, ...] | None:
    """The shape that an argument names: a number, or a tuple of them."""
    if isinstance(given.known, int):
        return (given.known,)
    if given.kind in ("tuple", "list") and given.items and None not in given.items:
        return tuple(v.known if isinstance(v.known, int) and not v.varies else None for v in given.items.values())
    return None


def either(one: Value, other: Value) -> Value:
    """What is one of two: of one kind what they have in common, of two kinds the one that says more."""
    if one is other:
        return one
    if "none" in (one.kind, other.kind) or "unknown" in (one.kind, other.kind):
        kept = other if one.kind in ("none", "unknown") else one
        return kept if kept.known is NOTHING else kept.with_(known=NOTHING, varies=one.varies | other.varies)
    if one.kind != other.kind:
        return UNKNOWN.moving(one.varies | other.varies)
    same = one.known is not NOTHING and type(one.known) is type(other.known) and one.known == other.known
    return one.with_(
        known=one.known if same else NOTHING,
        varies=one.varies | other.varies,
        ragged=one.ragged | other.ragged,
        dtype=one.dtype if one.dtype == other.dtype else "",
        shape=one.shape if one.shape == other.shape else None,
        name=one.name if one.name == other.name else "",
    )


def joined(several: Iterable[Value]) -> Value:
    """What is any of these; unknown where there is none."""
    found: Value | None = None
    for one in several:
        found = one if found is None else either(found, one)
    return UNKNOWN if found is None else found


def widest(*several: Value) -> str:
    """The number format that arithmetic of these gives; Python's numbers follow the arrays."""
    known = [v.dtype for v in several if v.kind in ("array", "tensor", "variable")]
    if "" in known or not known:
        return ""
    return max(known, key=lambda name: (name.startswith("float"), name))
