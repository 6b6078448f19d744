"""Bytes that a ``map`` casts to floats: handed over as bytes, and cast by the step of the script's own loop."""

from __future__ import annotations

import ast

from slowtrain.causes.transfer.wide_input import model_cast
from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

ITERATING_FUNCTIONS = ("enumerate", "iter")
KERAS_METHODS = ("fit", "evaluate", "predict")  # they would get bytes as well


def cast_in_step(source: Source, line: int) -> list[Edit]:
    """Moves the cast of the ``map`` at ``line`` to the first line of the ``tf.function`` that takes the batches.

    No edits unless each loop over the data set gives its batches to that function alone, and nothing else reads them.
    """
    calls = [c for c in node_lookup.calls_at_line(source, line, "map") if isinstance(c.func, ast.Attribute)]
    scale = model_cast.scale_of_map(source, calls[0]) if len(calls) == 1 else None
    if scale is None or call_index.index_of(source).called(*KERAS_METHODS):
        return []
    names: set[str] = set()
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For)]
    mine = [n for n in loops if model_cast.casting_map(source, _dataset_of_loop(n), calls[0], names) is calls[0]]
    given = [_dataset_of_loop(n) for n in mine]
    steps = [_step_function(source, loop) for loop in mine]
    step = steps[0] if steps else None
    if step is None or any(s is not step for s in steps) or model_cast.is_read_elsewhere(source, given, names):
        return []
    if len(call_index.index_of(source).called(step.name)) != len(mine) or not _is_castable_graph_function(source, step):
        return []
    name = scope_names.parameter_names(step)[0]
    tf, also = edits.ensure_import(source, "tensorflow", "tf")
    cast = f"{name} = {tf}.cast({name}, {tf}.float32){_scaling_text(scale)}"
    return [*also, edits.insert_before(source, _first_statement(step), cast), model_cast.without_call(source, calls[0])]


def _dataset_of_loop(loop: ast.For) -> ast.expr:
    """The data set of a loop, without ``enumerate`` and ``iter``."""
    given = loop.iter
    while (
        isinstance(given, ast.Call) and node_lookup.called_name(given) in ITERATING_FUNCTIONS and len(given.args) >= 1
    ):
        given = given.args[0]
    return given


def _step_function(source: Source, loop: ast.For) -> ast.FunctionDef | None:
    """The function whose first argument is the first part of the loop's element, if nothing else reads that part."""
    target = loop.target
    counted = isinstance(loop.iter, ast.Call) and node_lookup.called_name(loop.iter) == "enumerate"
    if counted:
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    if not isinstance(first, ast.Name) or (counted and target is loop.target):
        return None
    reads = [n for n in name_bindings.reads_of(source, first.id) if edits.node_start(n) > edits.node_start(loop)]
    call = node_lookup.parents_of(source).get(reads[0]) if len(reads) == 1 else None
    if not isinstance(call, ast.Call) or call.args[:1] != reads or not isinstance(call.func, ast.Name):
        return None
    return (
        node_lookup.function_named(source, call.func.id, call)
        if loop in scope_names.enclosing_loops(source, call)
        else None
    )


def _is_castable_graph_function(source: Source, step: ast.FunctionDef) -> bool:
    """Whether it is a ``tf.function`` without a signature that never rebinds its first parameter."""
    names = scope_names.parameter_names(step)
    of = [d.func if isinstance(d, ast.Call) else d for d in step.decorator_list]
    signed = any(
        node_lookup.argument_value(d, "input_signature", 1) for d in step.decorator_list if isinstance(d, ast.Call)
    )
    graph = [name_bindings.qualified_name(source, d) for d in of] == ["tensorflow.function"]
    return graph and not signed and bool(names) and names[0] not in scope_names.bound_names(step.body)


def _first_statement(step: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring."""
    head = step.body[0]
    text = isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) and isinstance(head.value.value, str)
    return step.body[1] if text and len(step.body) > 1 else head


def _scaling_text(scale: str) -> str:
    """``1 / 255.0`` as ``/ 255.0``, the operation of the map; "" for 1."""
    if scale == "1.0":
        return ""
    return f" / {scale.removeprefix('1 / ')}" if scale.startswith("1 / ") else f" * {scale}"
