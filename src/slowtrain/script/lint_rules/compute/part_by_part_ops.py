"""Lint rules about steps that process rows, pairs or heads one by one, which one op can process together."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MIN_PARTS = 20  # each with its own ops. Starting fewer of them costs too little to report.


def mapped_rows(source: Source) -> Iterator[tuple[ast.Call, tuple[Edit, ...]]]:
    """Find ``tf.map_fn`` in a step over a function that accepts all rows at once, with the edits."""
    for call in call_index.index_of(source).called("map_fn"):
        if name_bindings.qualified_name(source, call.func) != "tensorflow.map_fn" or not is_in_step(source, call):
            continue
        changed = tuple(table_lookups.use_vectorized_map(source, call.lineno))
        if changed:
            yield call, changed


def output_branches(source: Source) -> Iterator[tuple[ast.For, int]]:
    """Find loops that apply equal layers to the same input, for each of many outputs."""
    if ")(" not in source.text or "for " not in source.text or not name_bindings.may_name(source, "keras.layers."):
        return
    if not call_index.takes_training_steps(source):
        return
    for loop in call_index.nodes_of_kind(source, ast.For):
        if not isinstance(loop, ast.For) or len(loop.body) > 6 or any(isinstance(s, ast.For) for s in loop.body):
            continue
        layers = [n for one in loop.body for n in syntax_tree.walk(one) if isinstance(n, ast.Call)]
        put = [n for n in layers if isinstance(n.func, ast.Call) and _is_layer_call(source, n.func)]
        turns = queries.loop_turns(source, loop) if put else None
        if turns is not None and turns >= MIN_PARTS and _has_equal_layers(loop, put) and _keeps_each_output(loop):
            yield loop, turns


def _is_layer_call(source: Source, call: ast.Call) -> bool:
    return name_bindings.qualified_name(source, call.func).startswith("keras.layers.")


def _has_equal_layers(loop: ast.For, put: list[ast.Call]) -> bool:
    """Whether the input of the first layer is fixed and no layer size depends on the iteration. Layer names may."""
    own = scope_names.bound_names(loop)
    inputs = [a for call in put for a in call.args]
    if not any(isinstance(a, ast.Name) and a.id not in own for a in inputs):
        return False
    makers = [call.func for call in put if isinstance(call.func, ast.Call)]
    sizes = [a for m in makers for a in (*m.args, *(k.value for k in m.keywords if k.arg != "name"))]
    return not scope_names.read_names(sizes) & own


def _keeps_each_output(loop: ast.For) -> bool:
    """Whether each iteration stores a separate output, under a key or in a list."""
    stores = any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for n in syntax_tree.walk(loop))
    return stores or any(
        isinstance(n, ast.Call) and node_lookup.called_name(n) == "append" for n in syntax_tree.walk(loop)
    )


def is_in_step(source: Source, node: ast.AST) -> bool:
    """Whether a training step runs ``node``, according to the calls in the file."""
    function = node_lookup.enclosing_function(source, node)
    if function is None or not call_index.takes_training_steps(source):
        return False
    tapes = call_index.index_of(source).called("GradientTape")
    todo = [f for tape in tapes if (f := node_lookup.enclosing_function(source, tape)) is not None]
    for kind in call_index.nodes_of_kind(source, ast.ClassDef):
        made = class_members.own_method(kind, "call") if isinstance(kind, ast.ClassDef) else None
        if made is not None and isinstance(kind, ast.ClassDef) and call_index.index_of(source).called(kind.name):
            todo.append(made)
    seen: set[ast.AST] = set()
    while todo:
        one = todo.pop()
        if one is function:
            return True
        if one in seen:
            continue
        seen.add(one)
        calls = (n for s in one.body for n in syntax_tree.walk(s) if isinstance(n, ast.Call))
        todo += [f for call in calls if (f := queries.called_function(source, call)) is not None]
        todo += [n for s in one.body for n in syntax_tree.walk(s) if isinstance(n, FUNCTION_NODES)]
    return False
