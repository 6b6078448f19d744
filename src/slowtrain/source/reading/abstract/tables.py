"""Tables and columns of pandas, as arrays of rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slowtrain.source.reading.abstract import shapes, things
from slowtrain.source.reading.abstract.values import UNKNOWN, Given, Value, dtype

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine

TABLE, COLUMN = "table", "column"
# Methods that keep the rows, and a table's columns.
ALONG = frozenset(
    "fillna sort_values sort_index reset_index copy ffill bfill interpolate clip round rank cumsum shift".split()
)
FEWER = frozenset("dropna drop_duplicates query sample".split())
OTHERS = frozenset("apply map groupby merge join assign drop pop rolling iterrows itertuples".split())


def of_pandas(on: Value) -> bool:
    return on.kind == "array" and on.name in (TABLE, COLUMN)


def call(machine: Machine, name: str, given: Given) -> Value:
    """The result of a function or class of pandas."""
    last = name.rpartition(".")[2]
    if last.startswith("read_") or last in ("concat", "merge", "get_dummies"):
        return _table((None, None), machine.born())
    held = given.get("data", 0)
    if last == "DataFrame":
        columns = [one for key, one in held.items.items() if key is not None] if held.kind == "dict" else []
        whole = shapes.of(held) if held.kind in ("array", "list") else None
        rows = next((n for one in columns if (n := things.length(one)) is not None), None)
        shape = (rows, len(columns)) if columns else whole if whole and len(whole) == 2 else (None, None)
        return _table(shape, machine.born())
    if last == "Series":
        return Value("array", dtype=held.dtype, shape=(things.length(held),), name=COLUMN, born=machine.born())
    return UNKNOWN.moving(given.varies)


def _table(shape: tuple[int | None, ...], born: tuple[int, ...]) -> Value:
    return Value("array", name=TABLE, shape=shape, born=born)


def attribute(on: Value, name: str) -> Value | None:
    """``df.iloc``, ``df.values``, ``df.index``; None for attributes that arrays have as well."""
    if name in ("iloc", "loc"):
        return on
    if name == "values":
        return on.with_(name="")
    if name == "index":
        return Value("array", shape=_rows(on), name=COLUMN, varies=on.varies)
    return None


def taken(on: Value, key: Value) -> Value | None:
    """``df["price"]``, ``df[["price", "stock"]]``; None if an array gives the same."""
    if on.name == TABLE and key.kind == "text":
        return Value("array", shape=_rows(on), name=COLUMN, varies=on.varies)
    if on.name == TABLE and key.kind == "list":
        return on.with_(shape=(*_rows(on), things.length(key)), dtype="")
    if key.kind == "array":  # rows selected by a condition
        return on.with_(shape=(None, *(on.shape or (None,))[1:]))
    return on.with_(shape=None) if key.kind == "unknown" else None


def method(on: Value, name: str, given: Given) -> Value | None:
    """The result of a method that arrays do not have, or have with another meaning; None for others."""
    if name in ("to_numpy", "astype"):
        named = dtype(given.get("dtype", 0))
        return on.with_(name="" if name == "to_numpy" else on.name, dtype=named or on.dtype).moving(given.varies)
    if name in ALONG:
        return on.moving(given.varies)
    if name in ("head", "tail"):
        count = given.get("n", 0).known
        return on.with_(shape=(count if isinstance(count, int) else None, *(on.shape or (None,))[1:]))
    if name in FEWER:
        return on.with_(shape=(None, *(on.shape or (None,))[1:])).moving(given.varies)
    return UNKNOWN.moving(on.varies | given.varies) if name in OTHERS else None


def _rows(on: Value) -> tuple[int | None, ...]:
    return (on.shape or (None,))[:1]
