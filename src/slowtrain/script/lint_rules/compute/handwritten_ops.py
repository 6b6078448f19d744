"""Lint rules about handwritten ops and work on whole embedding tables, by the text of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.model import Edit
from slowtrain.script.fixes.models import keras_models, table_lookups
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.lint_rules.compute import embedding_tables, part_by_part_ops
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_ONE_HOT_ROWS = 1000  # of a table. The product with one-hot rows is then mostly with zeros.
MIN_LARGE_TABLE_ROWS = 10_000  # of a table that each step processes. A batch looks up some hundreds of rows.
# Adam reads and writes the table and its two averages. From this size on, that takes longer than a step of a model
# that only has lookups and a few dense layers.
MIN_TABLE_NUMBERS = 2_000_000
LIGHT_LAYERS = frozenset(
    "Embedding Dense Dot Flatten Activation Input InputLayer Concatenate Dropout GlobalAveragePooling1D Reshape "
    "Multiply Add Lambda BatchNormalization Average Subtract GlobalMaxPooling1D Permute Hashing StringLookup "
    "IntegerLookup Discretization Normalization".split()
)
# Methods by which a step updates rows of a table itself.
SCATTER_METHODS = frozenset(name[1:] for name in step_loops.SCATTER_UPDATES) | {"scatter_update", "scatter_nd_update"}
PENALTY_ARGUMENT = "embeddings_regularizer"
STEERING_ARGUMENTS = (PENALTY_ARGUMENT, "weights", "trainable", "embeddings_constraint")


@dataclass(frozen=True)
class HandwrittenOp:
    start: tuple[int, int]
    end: tuple[int, int]
    says: str
    cure: str
    changed: tuple[Edit, ...]


def find_handwritten_ops(source: Source) -> Iterator[HandwrittenOp]:
    for call in (
        call_index.index_of(source).called("one_hot")
        if name_bindings.may_name(source, *table_lookups.LOOKUP_FUNCTIONS)
        else ()
    ):
        depth = node_lookup.argument_value(call, "depth", 1) or node_lookup.argument_value(call, "num_classes", 1)
        rows = queries.int_at(source, depth)
        if rows is None or rows < MIN_ONE_HOT_ROWS:
            continue
        changed = table_lookups.use_gather(source, edits.node_end(call.func)[0])
        if changed:
            says = f"a product with one-hot rows of {rows:,} numbers looks up one row each"
            cure = "look rows up with tf.gather or layers.Embedding instead of multiplying"
            yield HandwrittenOp(edits.node_start(call), edits.node_end(call), says, cure, changed)
    yield from _row_by_row_ops(source)


def _row_by_row_ops(source: Source) -> Iterator[HandwrittenOp]:
    for call, changed in part_by_part_ops.mapped_rows(source):
        says = "map_fn takes one row of the batch after another through ops that take all of them at once"
        yield HandwrittenOp(edits.node_start(call), edits.node_end(call.func), says, "work on the whole batch", changed)
    for loop, count in part_by_part_ops.output_branches(source):
        says = f"{count} branches of layers alike are built, traced and run one by one on the same input"
        cure = "make one layer of all of them: a wide Dense, or EinsumDense for those behind it"
        yield HandwrittenOp(edits.node_start(loop), edits.node_end(loop.iter), says, cure, ())


def whole_table_ops(source: Source) -> Iterator[HandwrittenOp]:
    """Find normalisations of all rows of a large table before a lookup."""
    seen: set[ast.Call] = set()
    if "Variable" not in source.words or not name_bindings.may_name(source, *table_lookups.GATHER_FUNCTIONS):
        return
    for gather in call_index.index_of(source).called("gather", "embedding_lookup"):
        given = (
            gather.args[0]
            if gather.args and name_bindings.qualified_name(source, gather.func) in table_lookups.GATHER_FUNCTIONS
            else None
        )
        call = name_bindings.single_assignment(source, given) if isinstance(given, ast.Name) else given
        table = table_lookups.row_wise_table(source, call) if isinstance(call, ast.Call) and call not in seen else None
        if not isinstance(call, ast.Call) or table is None or not table_lookups.is_table(source, table):
            continue
        seen.add(call)
        rows = _table_row_count(source, table)
        changed = (
            table_lookups.gather_before_normalising(source) if rows is not None and rows >= MIN_LARGE_TABLE_ROWS else ()
        )
        if changed:
            says = f"{node_lookup.called_name(call)} of all {rows:,} rows, of which a step looks up a batch"
            cure = "look up rows first; normalise or regularise only those"
            yield HandwrittenOp(edits.node_start(call), edits.node_end(call), says, cure, changed)


def _table_row_count(source: Source, table: ast.expr) -> int | None:
    made = name_bindings.single_assignment(source, table) if isinstance(table, ast.Name) else None
    if not isinstance(made, ast.Call) or node_lookup.called_name(made) != "Variable":
        return None
    return queries.row_count_at(source, node_lookup.argument_value(made, "initial_value", 0))


def dense_table_updates(source: Source) -> Iterator[HandwrittenOp]:
    """Find large embeddings that Adam updates in an otherwise small model."""
    if not name_bindings.may_name(source, "keras.layers.") or not call_index.takes_training_steps(source):
        return
    known = [
        (c, n) for c in call_index.index_of(source).called("Embedding") if (n := _table_size(source, c)) is not None
    ]
    large = [
        (call, sizes)
        for call, sizes in known
        if sizes[0] >= MIN_LARGE_TABLE_ROWS and sizes[0] * sizes[1] >= MIN_TABLE_NUMBERS
    ]
    if (
        not large
        or not _is_light_model(source, max(rows for _, (rows, _) in large))
        or not SCATTER_METHODS.isdisjoint(source.words)
    ):
        return
    changed = keras_models.use_lazy_adam(source)
    if embedding_tables.uses_another_optimizer(source) if changed else not embedding_tables.uses_only_adam(source):
        return
    for call, (rows, width) in large:
        says = f"Adam updates all {rows:,} x {width} numbers of this table in each step"
        cure = "use an optimizer that updates only the rows used: a lazy Adam, SGD without momentum"
        yield HandwrittenOp(edits.node_start(call), edits.node_end(call), says, cure, changed)


def penalised_embeddings(source: Source) -> Iterator[HandwrittenOp]:
    """Find large embeddings whose norm is part of the loss. It reads and updates all rows."""
    if not name_bindings.may_name(source, "keras.layers.") or not call_index.takes_training_steps(source):
        return
    large = {}
    for call in call_index.index_of(source).called("Embedding"):
        sizes = _table_size(source, call, PENALTY_ARGUMENT)
        if sizes is not None and sizes[0] >= MIN_LARGE_TABLE_ROWS and sizes[0] * sizes[1] >= MIN_TABLE_NUMBERS:
            large[call] = sizes
    cure = "add the norm of the rows that were looked up to the loss (add_loss), not that of the table"
    for call, (rows, width) in large.items():
        given = embedding_tables.embedding_penalty(source, call)
        if given is not None and not embedding_tables.has_heavy_ops(source, rows):
            says = f"this goes through all {rows:,} x {width} numbers of the table in each step, as does its gradient"
            yield HandwrittenOp(edits.node_start(given), edits.node_end(given), says, cure, ())
    named = {scope_names.dotted_name(t): c for c in large for t in _assignment_targets(source, c)}
    for norm, call in embedding_tables.table_norms(source, named, next(iter(large))) if large else ():
        rows, width = large[call]
        if not embedding_tables.has_heavy_ops(source, rows) and part_by_part_ops.is_in_step(source, norm):
            says = f"this goes through all {rows:,} x {width} numbers of a table in each step, as does its gradient"
            yield HandwrittenOp(edits.node_start(norm), edits.node_end(norm), says, cure, ())


def _assignment_targets(source: Source, call: ast.Call) -> list[ast.expr]:
    holder = node_lookup.parents_of(source).get(call)
    return holder.targets if isinstance(holder, ast.Assign) else []


def densified_gradients(source: Source) -> Iterator[HandwrittenOp]:
    """Find conversions of gradients to tensors, which give the gradient of a large table all its rows."""
    tapes = {n for c in call_index.index_of(source).called("gradient") for n in _bound_names(source, c)}
    for call in call_index.index_of(source).called("convert_to_tensor") if tapes else ():
        given = call.args[0] if call.args else None
        holder = node_lookup.enclosing_node(source, call, *scope_names.COMPREHENSIONS)
        name = scope_names.dotted_name(given) if given is not None else ""
        over = [g.iter for g in getattr(holder, "generators", ()) if name and scope_names.dotted_name(g.target) == name]
        if not over or not scope_names.read_names(over[0]) & tapes:
            continue
        tables = [
            n for c in call_index.index_of(source).called("Embedding") if (n := _table_size(source, c)) is not None
        ]
        rows = [height for height, width in tables if height * width >= MIN_TABLE_NUMBERS]
        if rows and max(rows) >= MIN_LARGE_TABLE_ROWS:
            says = f"the gradient of a table becomes one with all {max(rows):,} rows, of which a step looks up a batch"
            cure = "leave the gradient as it is (tf.IndexedSlices): work on its values, or clip by the global norm"
            yield HandwrittenOp(edits.node_start(call), edits.node_end(call), says, cure, ())


def _bound_names(source: Source, call: ast.Call) -> set[str]:
    holder = node_lookup.parents_of(source).get(call)
    return (
        scope_names.bound_names(holder.targets[0]) if isinstance(holder, ast.Assign) and holder.value is call else set()
    )


def _table_size(source: Source, call: ast.Call, but: str = "") -> tuple[int, int] | None:
    if not name_bindings.qualified_name(source, call.func).startswith("keras.layers."):
        return None
    rows = queries.int_at(source, node_lookup.argument_value(call, "input_dim", 0))
    width = queries.int_at(source, node_lookup.argument_value(call, "output_dim", 1))
    steered = any((k.arg in STEERING_ARGUMENTS and k.arg != but) or k.arg is None for k in call.keywords)
    return (rows, width) if rows and width and not steered else None


def _is_light_model(source: Source, rows: int) -> bool:
    """Whether the layers of the file do little besides lookups, and none has an output per row."""
    for name in sorted(source.words):
        calls = call_index.index_of(source).called(name) if name[:1].isupper() else []
        if any(name_bindings.qualified_name(source, c.func).startswith("keras.layers.") for c in calls):
            if name not in LIGHT_LAYERS:
                return False
            if name == "Dense" and any(not 0 < (_layer_units(source, c) or 0) < min(rows, 4096) for c in calls):
                return False
    own = (n for n in call_index.nodes_of_kind(source, ast.ClassDef) if isinstance(n, ast.ClassDef))
    return not any(scope_names.dotted_name(b).endswith("Layer") for n in own for b in n.bases)


def _layer_units(source: Source, call: ast.Call) -> int | None:
    return queries.int_at(source, node_lookup.argument_value(call, "units", 0))
