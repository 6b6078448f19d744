"""Calls of models for one row, as the text shows: what makes the argument, or what is read of the result."""

from __future__ import annotations

import ast

from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

ARRAY_MAKERS = frozenset("array asarray constant convert_to_tensor stack vstack float32".split())
SAME_ROWS_FUNCTIONS = ARRAY_MAKERS | frozenset("astype cast copy".split())
MODEL_CALLS = frozenset({"predict", "predict_on_batch"})
LABELLED_CALLS = frozenset({"fit", "train_on_batch"})  # calls that get inputs and targets
MAX_ASSIGNMENTS = 4  # that are followed


def takes_one_row(source: Source, call: ast.Call) -> bool:
    """Whether ``predict``, ``fit`` or ``train_on_batch`` gets one row."""
    given = node_lookup.argument_value(call, "x", 0)
    if given is not None and _is_one_row(source, given):
        return True
    if node_lookup.called_name(call) in LABELLED_CALLS:
        return _has_targets_of_one_row(source, call)
    return reads_first_row(source, call) or _is_batch_of_one(source, call)


def makes_one_row(source: Source, call: ast.Call) -> bool:
    """Whether a call makes an array of one row of a single sample: ``tf.convert_to_tensor([state])``."""
    return isinstance(call.func, ast.Attribute) and _makes_one_row(source, call, call.func, 0)


def reads_first_row(source: Source, call: ast.Call) -> bool:
    """Whether only row 0 of the result is read, ``predict(state)[0]``, so that the call gets one row."""
    read = node_lookup.parents_of(source).get(call)
    if _reads_one_row(source, read, call):
        return True
    function = node_lookup.enclosing_function(source, call)
    match read:
        case ast.Assign(targets=[ast.Name() as target], value=value) if value is call and function is not None:
            return _reads_one_row_of(source, function, target)
    return False


def _reads_one_row_of(source: Source, function: ast.AST, target: ast.Name) -> bool:
    """Whether all reads of a name are of row 0, or hand it over as targets."""
    inside = [n for n in syntax_tree.walk(function) if isinstance(n, ast.Name) and n.id == target.id]
    if sum(not isinstance(n.ctx, ast.Load) for n in inside) != 1:
        return False
    reads = [(n, node_lookup.parents_of(source).get(n)) for n in inside if isinstance(n.ctx, ast.Load)]
    others = [(n, above) for n, above in reads if not _reads_one_row(source, above, n)]
    return len(others) < len(reads) and all(
        isinstance(above, ast.Call) and node_lookup.called_name(above) in LABELLED_CALLS for _, above in others
    )


def _reads_one_row(source: Source, read: ast.AST | None, result: ast.expr) -> bool:
    """Whether it is ``result[0]`` of a model with one output, ``argmax(result)`` or ``argmax(result, axis=1)[0]``."""
    if isinstance(read, ast.Call) and node_lookup.called_name(read) == "argmax" and read.args[:1] == [result]:
        whole = len(read.args) == 1 and not read.keywords
        return whole or _is_first_item(node_lookup.parents_of(source).get(read), read)
    return _is_first_item(read, result) and _has_one_output(source)


def _is_first_item(read: ast.AST | None, whole: ast.expr) -> bool:
    """``whole[0]`` or ``whole[0, ...]``."""
    if not isinstance(read, ast.Subscript) or read.value is not whole:
        return False
    row = read.slice.elts[0] if isinstance(read.slice, ast.Tuple) and read.slice.elts else read.slice
    return isinstance(row, ast.Constant) and row.value == 0


def _has_one_output(source: Source) -> bool:
    """Whether the models of the file have one output each. With several, ``predict(x)[0]`` is the first output."""
    built = call_index.index_of(source).calls_of("Model")
    outputs = (node_lookup.argument_value(call, "outputs", 1) for call in built)
    if any(isinstance(one, ast.List | ast.Tuple) for one in outputs):
        return False
    return bool(built or call_index.index_of(source).calls_of("Sequential"))


def _has_targets_of_one_row(source: Source, call: ast.Call) -> bool:
    """Whether the targets are the changed result of a ``predict`` for one row."""
    targets = node_lookup.argument_value(call, "y", 1)
    made = name_bindings.latest_assignment(source, targets) if isinstance(targets, ast.Name) else None
    called = isinstance(made, ast.Call) and node_lookup.called_name(made) in MODEL_CALLS
    return isinstance(made, ast.Call) and called and takes_one_row(source, made)


def _is_batch_of_one(source: Source, call: ast.Call) -> bool:
    """Whether ``batch_size`` is 1, also by the default of a parameter."""
    size = node_lookup.argument_value(call, "batch_size", 1)
    if isinstance(size, ast.Name):
        function = node_lookup.enclosing_function(source, call)
        defaults = class_members.parameter_defaults(function) if isinstance(function, FUNCTION_NODES) else {}
        size = defaults.get(size.id)
    return isinstance(size, ast.Constant) and size.value == 1


def _is_one_row(source: Source, node: ast.expr, depth: int = MAX_ASSIGNMENTS) -> bool:
    """Whether an array has one row: ``x[None]``, ``array([x])``, ``expand_dims(x, 0)``, ``x.reshape(1, -1)``."""
    match node:
        case ast.Name() if depth:
            made = name_bindings.latest_assignment(source, node)
            return made is not None and _is_one_row(source, made, depth - 1)
        case ast.Subscript(slice=ast.Tuple(elts=[first, *_])) | ast.Subscript(slice=first):
            return name_bindings.is_new_axis(source, first)
        case ast.Call(func=ast.Attribute() | ast.Name() as func):
            return _makes_one_row(source, node, func, depth)
    return False


def _makes_one_row(source: Source, call: ast.Call, func: ast.Attribute | ast.Name, depth: int) -> bool:
    method = isinstance(func, ast.Attribute) and not name_bindings.qualified_name(source, func)
    name = node_lookup.called_name(call)
    if name in SAME_ROWS_FUNCTIONS:
        inside = func.value if isinstance(func, ast.Attribute) and method else next(iter(call.args), None)
        if name in ARRAY_MAKERS and isinstance(inside, ast.List):  # ``predict([x])`` has one input, not one row
            return len(inside.elts) == 1 and not isinstance(inside.elts[0], ast.Starred)
        return inside is not None and bool(depth) and _is_one_row(source, inside, depth - 1)
    if name == "expand_dims":
        axis = node_lookup.argument_value(call, "axis", 1)
        first = axis.elts[0] if isinstance(axis, ast.Tuple) and axis.elts else axis
        return isinstance(first, ast.Constant) and first.value == 0
    sizes = call.args if method else call.args[1:]
    sizes = sizes[0].elts if sizes and isinstance(sizes[0], (ast.Tuple, ast.List)) else sizes
    return name == "reshape" and bool(sizes) and isinstance(sizes[0], ast.Constant) and sizes[0].value == 1
