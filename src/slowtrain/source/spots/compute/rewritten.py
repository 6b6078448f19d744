"""Whole tables that each step writes anew from themselves: normalised, clipped or decayed row by row, used or not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.compute import ops, walked

ASSIGNS = ("assign", "assign_sub", "assign_add")
DEPTH = 4
ROWS_OF = frozenset({"gather", "gather_nd", "embedding_lookup", "take"})
FRAMEWORK = ("tensorflow.", "keras.ops.")


def whole(source: Source) -> Iterator[ast.Call]:
    """``table.assign(tf.math.l2_normalize(table, axis=1))`` in a step that looks up rows of ``table``."""
    if source.words.isdisjoint(ASSIGNS) or not step_loops.loops_by_number(source):
        return
    every = file_events(source)
    seen = set[ast.AST]()
    for event in every:
        call = event.node
        if event.name[1:] not in ASSIGNS or event.on is None or not isinstance(call, ast.Call) or call in seen:
            continue
        table = _table(event.on)
        if table is None or not call.args or not _each_step(source, event) or _small(every, table):
            continue
        if not _reads(source, call.args[0], table, DEPTH):
            continue
        if _looked_up(every, table) and not _all_rows(source, [e for e in every if e.loops == event.loops], table):
            seen.add(call)
            yield call


def _each_step(source: Source, event: Event) -> bool:
    if event.producer or not event.loops:
        return False
    inner = event.loops[-1].number
    return (inner in step_loops.loops_by_number(source) and inner not in event.rare) or step_loops.per_step_loop(
        source, event
    ) is not None


def _table(value: Value) -> ast.AST | None:
    """What made the variable, or the layer of which these are the ``embeddings``."""
    if value.kind == "variable":
        return value.node
    layer = value.data if value.kind == "method" and value.name == "embeddings" else None
    return layer.node if isinstance(layer, Value) else None


def _small(every: tuple[Event, ...], table: ast.AST) -> bool:
    """Whether the text tells that a table has few rows, or few numbers."""
    made = next((e for e in every if e.node is table), None)
    if made is None:
        return True
    if made.name == "keras.layers.Embedding":
        shape: tuple[object, ...] = (made.given.get("input_dim", 0).known, made.given.get("output_dim", 1).known)
    else:
        shape = made.result.shape or ()
    known = [n for n in shape if isinstance(n, int)]
    if shape and isinstance(shape[0], int) and shape[0] < ops.LARGE_ROWS:
        return True
    return len(known) == len(shape) > 0 and prod(known) < ops.TABLE_NUMBERS


def _looked_up(every: tuple[Event, ...], table: ast.AST) -> bool:
    """Whether rows of it are looked up: a layer that is called does so itself."""
    looked = (e.given.args[0] for e in every if e.name in walked.LOOK_UPS and e.given.args)
    layer = any(e.node is table and e.name == "keras.layers.Embedding" for e in every)
    return layer or any(_table(one) is table for one in looked)


def _all_rows(source: Source, step: list[Event], table: ast.AST) -> bool:
    """Whether the step computes with all rows anyway: distances to each, scores of each."""
    if any(e.name.endswith(walked.PRODUCTS) and any(_table(a) is table for a in e.given.every) for e in step):
        return True
    inside = {node_lookup.enclosing_function(source, e.node) for e in step}
    products = (
        n
        for n in call_index.nodes_of_kind(source, ast.BinOp)
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult)
    )
    return any(
        node_lookup.enclosing_function(source, one) in inside and _table(interpreter.value_at(source, side)) is table
        for one in products
        for side in (one.left, one.right)
    )


def _reads(source: Source, node: ast.expr, table: ast.AST, depth: int) -> bool:
    """Whether ops of the framework make an expression of the whole table."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        if _table(interpreter.value_at(source, node)) is table:
            return True
        made = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) and depth else None
        return made is not None and _reads(source, made, table, depth - 1)
    if isinstance(node, ast.BinOp):
        return _reads(source, node.left, table, depth) or _reads(source, node.right, table, depth)
    if not isinstance(node, ast.Call) or node_lookup.called_name(node) in ROWS_OF:
        return False
    if node_lookup.called_name(node) in ("read_value", "value") and isinstance(node.func, ast.Attribute):
        return _reads(source, node.func.value, table, depth)
    library = name_bindings.qualified_name(source, node.func).startswith(FRAMEWORK)
    return library and any(_reads(source, one, table, depth) for one in node.args)
