"""Bytes that a ``map`` makes floats of, handed over as bytes: the step of the script's own loop casts them instead."""

from __future__ import annotations

import ast

from slowtrain.causes.transfer.wide_input import narrowed
from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

THROUGH = ("enumerate", "iter")
KERAS = ("fit", "evaluate", "predict")  # would be given bytes as well


def cast_in_step(source: Source, line: int) -> list[Edit]:
    """The ``map`` at ``line`` left out, its cast as the first line of the ``tf.function`` that takes the batches.

    Only where each loop over the data set hands its batches to that function alone, and nothing else reads them.
    """
    calls = [c for c in node_lookup.calls_at_line(source, line, "map") if isinstance(c.func, ast.Attribute)]
    scale = narrowed.scale_of(source, calls[0]) if len(calls) == 1 else None
    if scale is None or call_index.index_of(source).called(*KERAS):
        return []
    names: set[str] = set()
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For)]
    mine = [n for n in loops if narrowed.cast_on_the_way(source, _data(n), calls[0], names) is calls[0]]
    given = [_data(n) for n in mine]
    steps = [_step(source, loop) for loop in mine]
    step = steps[0] if steps else None
    if step is None or any(s is not step for s in steps) or narrowed.used_otherwise(source, given, names):
        return []
    if len(call_index.index_of(source).called(step.name)) != len(mine) or not _compiled(source, step):
        return []
    name = scope_names.parameter_names(step)[0]
    tf, also = edits.ensure_import(source, "tensorflow", "tf")
    cast = f"{name} = {tf}.cast({name}, {tf}.float32){_times(scale)}"
    return [*also, edits.insert_before(source, _first(step), cast), narrowed.without_call(source, calls[0])]


def _data(loop: ast.For) -> ast.expr:
    """What a loop goes through, ``enumerate`` taken off."""
    given = loop.iter
    while isinstance(given, ast.Call) and node_lookup.called_name(given) in THROUGH and len(given.args) >= 1:
        given = given.args[0]
    return given


def _step(source: Source, loop: ast.For) -> ast.FunctionDef | None:
    """The function of the file that is given the first part of the loop's element first, if nothing else reads it."""
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


def _compiled(source: Source, step: ast.FunctionDef) -> bool:
    """Whether it is a ``tf.function`` without a signature, and binds its first parameter nowhere."""
    names = scope_names.parameter_names(step)
    of = [d.func if isinstance(d, ast.Call) else d for d in step.decorator_list]
    signed = any(
        node_lookup.argument_value(d, "input_signature", 1) for d in step.decorator_list if isinstance(d, ast.Call)
    )
    graph = [name_bindings.qualified_name(source, d) for d in of] == ["tensorflow.function"]
    return graph and not signed and bool(names) and names[0] not in scope_names.bound_names(step.body)


def _first(step: ast.FunctionDef) -> ast.stmt:
    """The first statement behind the docstring."""
    head = step.body[0]
    text = isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) and isinstance(head.value.value, str)
    return step.body[1] if text and len(step.body) > 1 else head


def _times(scale: str) -> str:
    """``1 / 255.0`` as ``/ 255.0``, the operation that the map had; nothing for 1."""
    if scale == "1.0":
        return ""
    return f" / {scale.removeprefix('1 / ')}" if scale.startswith("1 / ") else f" * {scale}"
