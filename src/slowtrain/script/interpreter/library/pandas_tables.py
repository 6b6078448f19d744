"""Tables and columns of pandas, as arrays of rows and columns."""

from __future__ import annotations

from slowtrain.script.interpreter.domain import operators, shape_rules
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, CallArgs, Value, dtype_name
from slowtrain.script.interpreter.domain.run_context import RunContext

TABLE, COLUMN = "table", "column"
# Methods that keep the rows, and a table's columns.
SAME_ROWS_METHODS = frozenset(
    "fillna sort_values sort_index reset_index copy ffill bfill interpolate clip round rank cumsum shift".split()
)
FEWER_ROWS_METHODS = frozenset("dropna drop_duplicates query sample".split())
UNKNOWN_RESULT_METHODS = frozenset("apply map groupby merge join assign drop pop rolling iterrows itertuples".split())


def is_pandas(on: Value) -> bool:
    return on.kind == "array" and on.name in (TABLE, COLUMN)


def pandas_call(machine: RunContext, name: str, given: CallArgs) -> Value:
    """The result of a function or class of pandas."""
    last = name.rpartition(".")[2]
    if last.startswith("read_") or last in ("concat", "merge", "get_dummies"):
        return _table_value((None, None), machine.born())
    held = given.get("data", 0)
    if last == "DataFrame":
        columns = [one for key, one in held.items.items() if key is not None] if held.kind == "dict" else []
        whole = shape_rules.shape_of(held) if held.kind in ("array", "list") else None
        rows = next((n for one in columns if (n := operators.known_length(one)) is not None), None)
        shape = (rows, len(columns)) if columns else whole if whole and len(whole) == 2 else (None, None)
        return _table_value(shape, machine.born())
    if last == "Series":
        return Value("array", dtype=held.dtype, shape=(operators.known_length(held),), name=COLUMN, born=machine.born())
    return UNKNOWN.varying_in(given.varies)


def _table_value(shape: tuple[int | None, ...], born: tuple[int, ...]) -> Value:
    return Value("array", name=TABLE, shape=shape, born=born)


def table_attribute(on: Value, name: str) -> Value | None:
    """``df.iloc``, ``df.values``, ``df.index``; None for attributes that arrays have as well."""
    if name in ("iloc", "loc"):
        return on
    if name == "values":
        return on.with_fields(name="")
    if name == "index":
        return Value("array", shape=_row_shape(on), name=COLUMN, varies=on.varies)
    return None


def table_subscript(on: Value, key: Value) -> Value | None:
    """``df["price"]``, ``df[["price", "stock"]]``; None if an array gives the same."""
    if on.name == TABLE and key.kind == "text":
        return Value("array", shape=_row_shape(on), name=COLUMN, varies=on.varies)
    if on.name == TABLE and key.kind == "list":
        return on.with_fields(shape=(*_row_shape(on), operators.known_length(key)), dtype="")
    if key.kind == "array":  # rows selected by a condition
        return on.with_fields(shape=(None, *(on.shape or (None,))[1:]))
    return on.with_fields(shape=None) if key.kind == "unknown" else None


def table_method(on: Value, name: str, given: CallArgs) -> Value | None:
    """The result of a method that arrays do not have, or have with another meaning; None for others."""
    if name in ("to_numpy", "astype"):
        named = dtype_name(given.get("dtype", 0))
        return on.with_fields(name="" if name == "to_numpy" else on.name, dtype=named or on.dtype).varying_in(
            given.varies
        )
    if name in SAME_ROWS_METHODS:
        return on.varying_in(given.varies)
    if name in ("head", "tail"):
        count = given.get("n", 0).known
        return on.with_fields(shape=(count if isinstance(count, int) else None, *(on.shape or (None,))[1:]))
    if name in FEWER_ROWS_METHODS:
        return on.with_fields(shape=(None, *(on.shape or (None,))[1:])).varying_in(given.varies)
    return UNKNOWN.varying_in(on.varies | given.varies) if name in UNKNOWN_RESULT_METHODS else None


def _row_shape(on: Value) -> tuple[int | None, ...]:
    return (on.shape or (None,))[:1]
