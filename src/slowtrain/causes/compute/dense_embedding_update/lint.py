"""Where the cause compute/dense-embedding-update shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.compute.dense_embedding_update import whole_tables
from slowtrain.causes.compute.dense_embedding_update.fix import LAZY_OPTIMIZER_CURE
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.models import keras_models, table_lookups
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.navigation import call_index
from slowtrain.script.text.source_file import Source

ADAM_CLASSES = frozenset({"adam", "adamw", "nadam", "adamax"})  # they keep averages of every weight and update each one
LOOKUP_FUNCTIONS = frozenset({"tensorflow.gather", "tensorflow.nn.embedding_lookup", "keras.ops.take"})
UPDATE_METHODS = frozenset({".apply_gradients", ".minimize"})
PRODUCT_FUNCTIONS = ("matmul", "einsum", "tensordot", "transpose")


def find_spots(source: Source) -> Iterable[Spot]:
    """Large tables with Adam; work on every row of a table before the lookup."""
    yield from list(whole_tables.whole_table_ops(source)) or table_wide_ops(source)
    yield from whole_tables.penalised_embeddings(source)
    yield from whole_tables.densified_gradients(source)
    changed: tuple[Edit, ...] | None = None
    for call, (rows, width) in densely_updated_tables(source):
        changed = keras_models.use_lazy_adam(source) if changed is None else changed
        cure = Prescription("edit", Effect.CHANGES_TRAINING, LAZY_OPTIMIZER_CURE, edits=changed)
        yield spots.node_spot(call, f"Adam updates all {rows:,} x {width} numbers of this table in each step", cure)


def densely_updated_tables(source: Source) -> Iterator[tuple[ast.Call, tuple[int, int]]]:
    """Find large tables that Adam updates and that are only used for lookups, in an otherwise small model."""
    if not any(name in source.text for name in ("Adam", "adam")):
        return
    every = file_events(source)
    found = {id(e.node): (e, size) for e in every if (size := _large_table_size(e)) is not None}
    if not found or not _runs_only_adam(every) or _runs_heavy_ops(every, max(rows for _, (rows, _) in found.values())):
        return
    if any(e.name.startswith(".scatter_") for e in every):  # the step updates rows itself
        return
    looked = {id(e.given.args[0].node) for e in every if e.name in LOOKUP_FUNCTIONS and e.given.args}
    multiplied = {
        id(a.node) for e in every if e.name.endswith(PRODUCT_FUNCTIONS) for a in e.given.args if a.kind == "variable"
    }
    for node in call_index.nodes_of_class(source, ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            multiplied |= {id(interpreter.value_at(source, side).node) for side in (node.left, node.right)}
    for key, (event, size) in found.items():
        used = event.name == "keras.layers.Embedding" or key in looked
        if used and key not in multiplied and isinstance(event.node, ast.Call):
            yield event.node, size


def _large_table_size(event: Event) -> tuple[int, int] | None:
    """Return rows and width of a large trainable table that an event creates; None for other events."""
    given = event.given
    if given.get("trainable").known is False:
        return None
    size: object = None
    if event.name == "keras.layers.Embedding" and not given.keywords.keys() & set(whole_tables.STEERING_ARGUMENTS):
        size = (_largest_number(event, given.get("input_dim", 0)), given.get("output_dim", 1).known)
    elif event.name in ("tensorflow.Variable", ".add_weight"):
        size = event.result.shape
    match size:
        case (int(rows), int(width)) if whole_tables.is_large_table(rows, width):
            return rows, width
    return None


def _largest_number(event: Event, number: Value) -> int | None:
    """Return a number, or the largest of the numbers that a loop takes from a list."""
    if isinstance(number.known, int):
        return number.known
    lists = [
        one.items.items.values() for one in event.loops if one.number in number.varies and one.items.kind == "list"
    ]
    known = [one.known for several in lists for one in several if isinstance(one.known, int)]
    return max(known) if known and number.kind == "number" else None


def _runs_only_adam(every: tuple[Event, ...]) -> bool:
    """Whether every optimizer is an Adam."""
    used = [e.given.get("optimizer", 0) for e in every if e.name == ".compile"]
    used += [e.on for e in every if e.name in UPDATE_METHODS and e.on is not None and not _is_compiled_optimizer(e)]
    return bool(used) and all(_optimizer_class(one) in ADAM_CLASSES for one in used)


def _is_compiled_optimizer(event: Event) -> bool:
    """``self.optimizer.apply_gradients(...)`` of a model, whose optimizer ``compile`` gets."""
    match event.node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="optimizer"))):
            return event.on is not None and event.on.kind in ("unknown", "method")
    return False


def _optimizer_class(optimizer: Value) -> str:
    if isinstance(optimizer.known, str):
        return optimizer.known.lower()
    return optimizer.name.rpartition(".")[2].lower() if optimizer.kind == "keras" else ""


def _runs_heavy_ops(every: tuple[Event, ...], rows: int) -> bool:
    """Whether a step contains ops that may take longer than a pass over the table."""
    for event in every:
        last = event.name.rpartition(".")[2]
        if last in whole_tables.HEAVY_OPS and event.name.startswith(("keras.layers.", "tensorflow.nn.", "keras.ops.")):
            return True
        units = event.given.get("units", 0).known if event.name == "keras.layers.Dense" else 0
        if isinstance(units, int) and units >= min(rows, 4096):
            return True
    return False


def table_wide_ops(source: Source) -> Iterator[Spot]:
    """Find ops on all rows of a large table before a lookup in a step, by the interpreter's events."""
    every = file_events(source)
    by_row = {id(e.result): (e, rows) for e in every if e.graph and (rows := _row_wise_table_rows(e)) is not None}
    for event in every if by_row else ():
        if event.name in LOOKUP_FUNCTIONS and event.given.args and id(event.given.args[0]) in by_row:
            made, rows = by_row.pop(id(event.given.args[0]))
            op = made.name.rpartition(".")[2]
            says = f"{op} of all {rows:,} rows, though a step looks up only those of a batch"
            cure = Prescription("edit", Effect.EQUIVALENT, whole_tables.LOOKUP_CURE)
            yield spots.node_spot(made.node, says, cure)


def _row_wise_table_rows(event: Event) -> int | None:
    """Return the rows of a large table that an op goes through row by row; None for other events."""
    table = event.given.args[0] if event.given.args else None
    if event.name not in (*table_lookups.ELEMENTWISE_FUNCTIONS, *table_lookups.ROW_FUNCTIONS) or table is None:
        return None
    axis = event.given.get("axis", 1).known
    if event.name in table_lookups.ROW_FUNCTIONS and axis not in (1, -1) and "softmax" not in event.name:
        return None
    match table.shape if table.kind == "variable" else None:
        case (int(rows), _) if rows >= whole_tables.MIN_LARGE_TABLE_ROWS:
            return rows
    return None
