"""Abstract values: what a name may hold while a script runs, as far as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

NOT_KNOWN: Any = object()  # the ``known`` of a value that is not known
SEVERAL_CLASSES = "several classes"  # the ``dtype`` of an object of one of several classes
NO_LOOPS: frozenset[int] = frozenset()
Shape = tuple[int | None, ...]  # None: an unknown size
MAX_ITEMS = 256  # kept of one list, mapping or call
NESTING_KINDS = frozenset({"list", "tuple", "dict", "object"})  # kinds whose items TensorFlow takes as arguments
# The kind and the name of a constant's value, by its class.
_CONSTANT_KINDS = {
    str: ("text", ""),
    bytes: ("text", ""),
    bool: ("number", "bool"),
    int: ("number", "int"),
    float: ("number", "float"),
}
# Aliases of dtypes.
DTYPE_ALIASES = {
    **dict.fromkeys(("float", "double", "float_", "f8", "d"), "float64"),
    **dict.fromkeys(("single", "f4", "f"), "float32"),
    **dict.fromkeys(("half", "f2"), "float16"),
    "int": "int64",
}
# From the narrowest to the widest. NumPy's arithmetic gives the widest, but float64 for float32 and wide integers.
DTYPES_BY_WIDTH = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 bfloat16 float16 float32 float64 complex64 complex128"
).split()
INTEGER_DTYPES = frozenset(DTYPES_BY_WIDTH[:9])
_WIDE_INTEGER_DTYPES = frozenset({"uint32", "int32", "uint64", "int64"})
EACH_ITEM = -1  # in ``ragged``: each item has another shape; a loop over the items replaces it by its number


class Value(Struct, eq=False):
    """One abstract value.

    ``kind``: "number", "text", "none", "array" (of NumPy), "tensor", "variable", "dataset", "graph" (a tf.function),
    "function", "class", "object" (of a class of the script), "keras" (an object of Keras; ``name`` is its class),
    "library" (``name`` is the full name), "list", "tuple", "dict", "generator", "method", "range", "rows" (items that
    are computed lazily), "field" (of a data class; ``of`` makes its default), "partial" or "unknown".

    ``shape`` of arrays: their sizes, None for an unknown one. ``name`` of a text: "counted" if a number that changes in
    each iteration is formatted into it.

    ``known``: the number, text or truth if it is known. ``varies``: numbers of the loops whose iterations change it.
    ``ragged``: those whose iterations change its shape. ``born``: the loops around the place where it was made.

    ``items``: of lists and tuples by position, of mappings and objects by name; the key None stands for any item.
    ``of``: the function of a method or a graph, the class of an object or of a method's function, an item of an
    iterable, the model of a "History", the function that ``np.vectorize`` calls. ``data``: the scope of a function, the
    bases of a class, the object of a method, the options of a graph. ``stages`` of a data set: its maker and its
    operations in order (``events.Stage``).
    """

    kind: str = "unknown"
    known: Any = NOT_KNOWN
    varies: frozenset[int] = NO_LOOPS
    ragged: frozenset[int] = NO_LOOPS
    born: tuple[int, ...] = ()
    dtype: str = ""
    shape: tuple[int | None, ...] | None = None
    name: str = ""
    node: ast.AST | None = None
    items: dict[Any, Value] = field(default_factory=dict)
    of: Value | None = None
    data: Any = None
    stages: tuple[Any, ...] = ()

    def with_fields(self, **changed: Any) -> Value:
        """A copy with other fields; its items are shared."""
        return structs.replace(self, **changed)

    def varying_in(self, loops: Iterable[int]) -> Value:
        """A copy that changes in each iteration of these loops too."""
        more = self.varies.union(loops)
        return self if len(more) == len(self.varies) else self.with_fields(varies=more)

    def nested_values(self, depth: int = 4) -> Iterator[Value]:
        """The value and all values inside it, as TensorFlow flattens the arguments of a tf.function."""
        yield self
        if depth and self.kind in NESTING_KINDS:
            for one in self.items.values():
                yield from one.nested_values(depth - 1)

    def is_alike(self, other: Value) -> bool:
        """Whether a join with the other value has the same properties as this value."""
        return self is other or (
            self.kind == other.kind
            and (self.known is other.known or (type(self.known) is type(other.known) and self.known == other.known))
            and self.varies == other.varies
            and self.ragged == other.ragged
            and self.dtype == other.dtype
            and self.shape == other.shape
            and self.name == other.name
            and (self.kind != "object" or self.of is other.of)
        )

    def varies_inside(self, depth: int) -> frozenset[int]:
        """The loops whose iterations change the value or a value inside it."""
        if not depth or self.kind not in NESTING_KINDS:
            return self.varies
        return self.varies.union(*[one.varies_inside(depth - 1) for one in self.items.values()])


def _all_loops(several: list[frozenset[int]]) -> frozenset[int]:
    return NO_LOOPS.union(*several) if any(several) else NO_LOOPS


class CallArgs(Struct, eq=False):  # frozen instances take longer to make
    """The arguments of a call, and its node."""

    node: ast.AST
    args: Sequence[Value] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict)

    @property
    def every(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]

    @property
    def varies(self) -> frozenset[int]:
        return _all_loops([one.varies for one in self.every])

    @property
    def ragged_loops(self) -> frozenset[int]:
        return _all_loops([one.ragged for one in self.every])

    @property
    def varying_inside(self) -> frozenset[int]:
        """The loops whose iterations change anything inside the arguments."""
        return _all_loops([one.varies_inside(3) for one in self.every])

    def get(self, name: str, place: int | None = None) -> Value:
        """The argument of this name or position; the unknown value if it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        return self.args[place] if place is not None and place < len(self.args) else UNKNOWN


UNKNOWN = Value()
NO_VALUE = Value("none", None)


def constant_value(known: Any) -> Value:
    """The value of a Python constant; unknown if it is no number, text or None."""
    if known is None:
        return NO_VALUE
    kind, name = _CONSTANT_KINDS.get(type(known), ("", ""))
    return Value(kind, known, name=name) if kind else UNKNOWN


def number_value(name: str = "", varies: frozenset[int] = NO_LOOPS) -> Value:
    """A Python number. ``name``: "int", "float", "bool", "few" (an int of few distinct values), or "" for any."""
    return Value("number", name=name, varies=varies)


def formatted_text(varies: frozenset[int], parts: Iterable[Value]) -> Value:
    """A text into which values are formatted."""
    inside = [one for a in parts for one in a.nested_values(1) if one.varies]
    counted = any(one.name == "counted" or (one.kind == "number" and one.name in ("int", "float")) for one in inside)
    return Value("text", varies=varies, name="counted" if counted else "")


def sequence_value(kind: str, items: Sequence[Value], born: tuple[int, ...] = ()) -> Value:
    """A list or tuple. Of a long one only the join of its items and its length are kept."""
    if len(items) > MAX_ITEMS:
        return Value(kind, items={None: join_values(items[:MAX_ITEMS])}, shape=(len(items),), born=born)
    return Value(kind, items=dict(enumerate(items)), born=born)


def dtype_name(value: Value) -> str:
    """The dtype that an argument names by a text, ``np.float32`` or ``a.dtype``; "" if unknown."""
    if value.kind == "text" and isinstance(value.known, str):
        return DTYPE_ALIASES.get(value.known, value.known)
    last = value.name.rpartition(".")[2] if value.kind == "library" else ""
    return DTYPE_ALIASES.get(last, last)


def shape_argument(value: Value) -> tuple[int | None, ...] | None:
    """The shape that an argument names by a number or a tuple; None if unknown."""
    if isinstance(value.known, int):
        return (value.known,)
    if value.kind in ("tuple", "list") and value.items and None not in value.items:
        return tuple(v.known if isinstance(v.known, int) and not v.varies else None for v in value.items.values())
    return None


def join_two(one: Value, other: Value) -> Value:
    """The join of two values: their common properties; of two kinds, the more specific one."""
    if one is other:
        return one
    if "none" in (one.kind, other.kind) or "unknown" in (one.kind, other.kind):
        known_one = other if one.kind in ("none", "unknown") else one
        if known_one.known is NOT_KNOWN:
            return known_one
        return known_one.with_fields(known=NOT_KNOWN, varies=one.varies | other.varies)
    if one.kind != other.kind:
        return UNKNOWN.varying_in(one.varies | other.varies)
    same = one.known is not NOT_KNOWN and type(one.known) is type(other.known) and one.known == other.known
    return one.with_fields(
        known=one.known if same else NOT_KNOWN,
        varies=one.varies | other.varies,
        ragged=one.ragged | other.ragged,
        dtype=SEVERAL_CLASSES if _differ_in_class(one, other) else one.dtype if one.dtype == other.dtype else "",
        shape=one.shape if one.shape == other.shape else None,
        name=one.name if one.name == other.name else "",
    )


def _differ_in_class(one: Value, other: Value) -> bool:
    return one.kind == "object" and one.of is not other.of


def join_values(several: Iterable[Value]) -> Value:
    """The join of all values; unknown if there is none."""
    found: Value | None = None
    for one in several:
        found = one if found is None else join_two(found, one)
    return UNKNOWN if found is None else found


def promoted_dtype(*several: Value) -> str:
    """The dtype of arithmetic between arrays; Python numbers take the arrays' dtype. "" if unknown."""
    known = [v.dtype for v in several if v.kind in ("array", "tensor", "variable")]
    if "" in known or not known:
        return ""
    if len(set(known)) == 1:
        return known[0]
    widest = max(known, key=lambda name: DTYPES_BY_WIDTH.index(name) if name in DTYPES_BY_WIDTH else -1)
    return "float64" if widest == "float32" and not _WIDE_INTEGER_DTYPES.isdisjoint(known) else widest


def floating_dtype(dtype: str) -> str:
    """The dtype of a quotient, a mean or a function like ``exp``: float64 for integers."""
    return "float64" if dtype in INTEGER_DTYPES else dtype


def as_float32(value: Value) -> Value:
    """An array, or the name of a dtype, that an edit makes float32."""
    match value.kind:
        case "text":
            return Value("text", "float32")
        case "library":
            return Value("library", name="numpy.float32")
        case "array":
            return value.with_fields(dtype="float32")
    return value
