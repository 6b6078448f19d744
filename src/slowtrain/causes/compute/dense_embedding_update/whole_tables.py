"""Work on all rows of a large table in each step, by the text of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.lint_rules import spots, step_code
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

HEAVY_OPS = frozenset(
    "Conv1D Conv2D Conv3D Conv2DTranspose SeparableConv2D DepthwiseConv2D LSTM GRU SimpleRNN RNN Bidirectional "
    "MultiHeadAttention ConvLSTM2D conv1d conv2d conv3d".split()
)
NORM_CLASSES = frozenset({"L2", "l2", "L1", "l1", "L1L2", "l1_l2", "OrthogonalRegularizer"})
VARIABLE_ATTRIBUTES = frozenset({"trainable_variables", "trainable_weights", "weights", "variables"})
NORM_FUNCTIONS = frozenset({"l2_loss", "reduce_sum", "reduce_mean", "norm", "sum", "mean"})
MIN_LARGE_TABLE_ROWS = 10_000  # of a table that each step processes. A batch looks up some hundreds of rows.
# Adam reads and writes the table and its two averages. From this size on, that takes longer than a step of a model
# that only has lookups and a few dense layers.
MIN_TABLE_NUMBERS = 2_000_000
PENALTY_ARGUMENT = "embeddings_regularizer"
LOOKUP_CURE = "look up rows first; normalise or regularise only those"
PENALTY_CURE = "add the norm of the rows that were looked up to the loss (add_loss), not that of the table"
SPARSE_CURE = "leave the gradient as it is (tf.IndexedSlices): work on its values, or clip by the global norm"
STEERING_ARGUMENTS = (PENALTY_ARGUMENT, "weights", "trainable", "embeddings_constraint")


def embedding_penalty(source: Source, call: ast.Call) -> ast.expr | None:
    """Return the regulariser of an ``Embedding``. Its gradient has all rows."""
    given = node_lookup.argument_value(call, "embeddings_regularizer", 3)
    written = setting_origins.written_value(source, given) if given is not None else None
    if isinstance(written, ast.Constant):
        return given if isinstance(written.value, str) and written.value in NORM_CLASSES else None
    if not isinstance(written, ast.Call) or node_lookup.called_name(written) not in NORM_CLASSES:
        return None
    rates = [*written.args, *(k.value for k in written.keywords)]
    none = [isinstance(r, ast.Constant) and not r.value for r in rates]
    return None if none and all(none) else given


def has_heavy_ops(source: Source, rows: int) -> bool:
    """Whether the file contains ops that may take longer than a pass over a table of this many rows."""
    if call_index.index_of(source).calls_of(*HEAVY_OPS):
        return True
    dense = call_index.index_of(source).calls_of("Dense")
    units = [queries.int_at(source, node_lookup.argument_value(call, "units", 0)) for call in dense]
    return any(n is not None and n >= min(rows, 4096) for n in units)


def table_norms(source: Source, tables: dict[str, ast.Call], any_of: ast.Call) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Find norms of whole tables, as in ``tf.nn.l2_loss(items.embeddings)``, with the call that makes the table.

    Also norms of all trained variables, in which case the table is ``any_of``.
    """
    for call in call_index.index_of(source).calls_of("l2_loss"):
        holder = node_lookup.enclosing_node(source, call, *scope_names.COMPREHENSIONS)
        over = [g.iter for g in getattr(holder, "generators", ()) if not g.ifs]
        if any(isinstance(one, ast.Attribute) and one.attr in VARIABLE_ATTRIBUTES for one in over):
            yield call, any_of
    for call in call_index.index_of(source).calls_of(*sorted(NORM_FUNCTIONS)) if "embeddings" in source.text else ():
        if not name_bindings.qualified_name(source, call.func).startswith(("tensorflow.", "keras.ops.")):
            continue
        inside = syntax_tree.nodes_inside(call.args[:1], ast.Attribute)
        for one in inside:
            name = scope_names.dotted_name(one.value)
            if one.attr == "embeddings" and name in tables and not _is_looked_up(source, one):
                yield call, tables[name]
                break


def _is_looked_up(source: Source, table: ast.expr) -> bool:
    """Whether rows are looked up before any other op."""
    holder = node_lookup.parents_of(source).get(table)
    if isinstance(holder, ast.Subscript):
        return True
    return isinstance(holder, ast.Call) and node_lookup.called_name(holder) in ("gather", "embedding_lookup", "take")


def whole_table_ops(source: Source) -> Iterator[Spot]:
    """Find normalisations of all rows of a large table before a lookup."""
    seen: set[ast.Call] = set()
    if "Variable" not in source.words or not name_bindings.may_name(source, *table_lookups.GATHER_FUNCTIONS):
        return
    for gather in call_index.index_of(source).calls_of("gather", "embedding_lookup"):
        known = gather.args and name_bindings.qualified_name(source, gather.func) in table_lookups.GATHER_FUNCTIONS
        given = gather.args[0] if known else None
        call = name_bindings.single_assignment(source, given) if isinstance(given, ast.Name) else given
        table = table_lookups.row_wise_table(source, call) if isinstance(call, ast.Call) and call not in seen else None
        if not isinstance(call, ast.Call) or table is None or not table_lookups.is_table(source, table):
            continue
        seen.add(call)
        rows = queries.row_count_at(source, table)
        changed = table_lookups.gather_before_normalising(source) if (rows or 0) >= MIN_LARGE_TABLE_ROWS else ()
        if changed:
            says = f"{node_lookup.called_name(call)} of all {rows:,} rows, of which a step looks up a batch"
            yield spots.node_spot(call, says, Prescription("edit", Effect.EQUIVALENT, LOOKUP_CURE, edits=changed))


def penalised_embeddings(source: Source) -> Iterator[Spot]:
    """Find large embeddings whose norm is part of the loss. It reads and updates all rows."""
    if not name_bindings.may_name(source, "keras.layers.") or not call_index.takes_training_steps(source):
        return
    sizes = {c: table_size(source, c, PENALTY_ARGUMENT) for c in call_index.index_of(source).calls_of("Embedding")}
    large = {call: size for call, size in sizes.items() if size is not None and is_large_table(*size)}
    named = {scope_names.dotted_name(t): c for c in large for t in _assignment_targets(source, c)}
    norms = [(given, call) for call in large if (given := embedding_penalty(source, call)) is not None]
    in_steps = table_norms(source, named, next(iter(large))) if large else ()
    norms += [(norm, call) for norm, call in in_steps if step_code.is_in_step(source, norm)]
    for norm, call in norms:
        rows, width = large[call]
        if not has_heavy_ops(source, rows):
            says = f"this goes through all {rows:,} x {width} numbers of the table in each step, as does its gradient"
            yield spots.node_spot(norm, says, Prescription("edit", Effect.CHANGES_TRAINING, PENALTY_CURE))


def is_large_table(rows: int, width: int) -> bool:
    return rows >= MIN_LARGE_TABLE_ROWS and rows * width >= MIN_TABLE_NUMBERS


def _assignment_targets(source: Source, call: ast.Call) -> list[ast.expr]:
    holder = node_lookup.parents_of(source).get(call)
    return holder.targets if isinstance(holder, ast.Assign) else []


def densified_gradients(source: Source) -> Iterator[Spot]:
    """Find conversions of gradients to tensors, which give the gradient of a large table all its rows."""
    tapes = {n for c in call_index.index_of(source).calls_of("gradient") for n in _bound_names(source, c)}
    for call in call_index.index_of(source).calls_of("convert_to_tensor") if tapes else ():
        name = scope_names.dotted_name(call.args[0]) if call.args else ""
        holder = node_lookup.enclosing_node(source, call, *scope_names.COMPREHENSIONS)
        over = [g.iter for g in getattr(holder, "generators", ()) if name and scope_names.dotted_name(g.target) == name]
        if not over or not scope_names.read_names(over[0]) & tapes:
            continue
        sizes = [table_size(source, c) for c in call_index.index_of(source).calls_of("Embedding")]
        rows = [size[0] for size in sizes if size is not None and is_large_table(*size)]
        if rows:
            says = f"the gradient of a table becomes one with all {max(rows):,} rows, of which a step looks up a batch"
            yield spots.node_spot(call, says, Prescription("edit", Effect.EQUIVALENT, SPARSE_CURE))


def _bound_names(source: Source, call: ast.Call) -> set[str]:
    holder = node_lookup.parents_of(source).get(call)
    return (
        scope_names.bound_names(holder.targets[0]) if isinstance(holder, ast.Assign) and holder.value is call else set()
    )


def table_size(source: Source, call: ast.Call, but: str = "") -> tuple[int, int] | None:
    if not name_bindings.qualified_name(source, call.func).startswith("keras.layers."):
        return None
    rows = queries.int_at(source, node_lookup.argument_value(call, "input_dim", 0))
    width = queries.int_at(source, node_lookup.argument_value(call, "output_dim", 1))
    steered = any((k.arg in STEERING_ARGUMENTS and k.arg != but) or k.arg is None for k in call.keywords)
    return (rows, width) if rows and width and not steered else None
