"""Pictures that a ``map`` makes floats of, handed over as bytes: the model's first layer casts and scales instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Edit
from slowtrain.script.evaluators import setting_origins
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.compute import models

CASTS = ("tensorflow.cast", "keras.ops.cast")
FLOATS = ("tensorflow.float32", "numpy.float32")
BEHIND = frozenset({"batch", "prefetch", "cache", "shuffle", "repeat", "take", "skip"})
GIVEN = ("fit", "evaluate", "predict")
BESIDE = ("GradientTape", "_on_batch", "set_global_policy", "set_dtype_policy", "set_floatx")  # other ways in
DEEPEST = 8


def cast_in_model(source: Source, line: int) -> list[Edit]:
    """The ``map`` at ``line`` left out, and those that do the same: one is on the way of all that the model is given.

    Nothing where the model is called in another way, or is put together of more than a list of layers.
    """
    calls = [c for c in node_lookup.calls_at_line(source, line, "map") if isinstance(c.func, ast.Attribute)]
    scale = scale_of(source, calls[0]) if len(calls) == 1 else None
    built = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and models.is_model(source, n)]
    listed = node_lookup.argument_value(built[0], "layers", 0) if len(built) == 1 else None
    if scale is None or not isinstance(listed, ast.List) or not listed.elts or any(w in source.text for w in BESIDE):
        return []
    given, names = list(_given(source, built[0])), set[str]()
    found = [cast_on_the_way(source, one, calls[0], names) for one in given]
    if not found or None in found or calls[0] not in found or used_otherwise(source, given, names):
        return []
    keras, also = models.keras_of(source)
    first = listed.elts[0]
    entrance = isinstance(first, ast.Call) and node_lookup.called_name(first) in ("Input", "InputLayer")
    if not entrance and any(isinstance(n, ast.keyword) and n.arg == "input_shape" for n in syntax_tree.walk(first)):
        return []  # of the layer that would no longer be the first
    layer = f"{keras}.layers.Rescaling({scale})"
    put = f", {layer}" if entrance else f"{layer}, "
    at = edits.node_end(first) if entrance else edits.node_start(first)
    gone = [without_call(source, c) for c in dict.fromkeys(found) if c is not None]
    return [*also, edits.insert_text(source, at, put), *gone]


def without_call(source: Source, call: ast.Call) -> Edit:
    """A data set without one operation; without the statement that does nothing else: ``ds = ds.map(scale)``."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    statement = node_lookup.enclosing_statement(source, call)
    if isinstance(statement, ast.Assign) and statement.value is call and isinstance(owner, ast.Name):
        alone = (
            len(scope_names.statement_block(source, statement)) > 1
            and ";" not in source.text.splitlines()[call.lineno - 1]
        )
        if alone and [scope_names.dotted_name(t) for t in statement.targets] == [owner.id]:
            return edits.remove_statement(source, statement)
    return Edit(source.file, edits.node_end(owner), edits.node_end(call), "")


def scale_of(source: Source, call: ast.Call) -> str | None:
    """What the function of a map multiplies its first element with, once cast; None where it does anything else."""
    function = node_lookup.argument_value(call, "map_func", 0)
    given = node_lookup.function_named(source, function.id, call) if isinstance(function, ast.Name) else function
    if isinstance(given, ast.FunctionDef):
        only = given.body[0] if len(given.body) == 1 and not given.decorator_list else None
        body = only.value if isinstance(only, ast.Return) else None
    else:
        body = given.body if isinstance(given, ast.Lambda) else None
    names = scope_names.parameter_names(given) if given is not None else []
    whole = body.elts if isinstance(body, ast.Tuple) else [body]
    if not names or len(whole) != len(names) or not isinstance(whole[0], ast.expr):
        return None
    if not all(isinstance(e, ast.Name) and e.id == n for e, n in zip(whole[1:], names[1:], strict=True)):
        return None
    return _scaled(source, whole[0], names[0])


def _scaled(source: Source, value: ast.expr, name: str) -> str | None:
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Div, ast.Mult)):
        known = setting_origins.literal_origin(source, value.right)
        if known is None or not isinstance(known.value, (int, float)) or _scaled(source, value.left, name) != "1.0":
            return None
        number = edits.node_text(source, value.right)
        return f"1 / {number}" if isinstance(value.op, ast.Div) else number
    if not isinstance(value, ast.Call) or name_bindings.qualified_name(source, value.func) not in CASTS:
        return None
    kind = node_lookup.argument_value(value, "dtype", 1)
    to_float = kind is not None and (
        name_bindings.qualified_name(source, kind) in FLOATS
        or (isinstance(kind, ast.Constant) and kind.value == "float32")
    )
    array = value.args[0] if value.args else None
    return "1.0" if to_float and isinstance(array, ast.Name) and array.id == name else None


def _given(source: Source, built: ast.Call) -> Iterator[ast.expr]:
    """All that a model is given: by ``fit``, ``evaluate`` and ``predict``."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GIVEN:
            parts = [node_lookup.argument_value(node, "x", 0), node_lookup.argument_value(node, "validation_data")]
            yield from (p for p in parts if p is not None)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is(source, node.func, built):
            yield node  # called by itself, with whatever it is


def _is(source: Source, name: ast.Name, built: ast.Call) -> bool:
    return name_bindings.latest_assignment(source, name) is built


def cast_on_the_way(source: Source, given: ast.expr, alike: ast.Call, names: set[str]) -> ast.Call | None:
    """The map that does what ``alike`` does, on the way of a data set, where nothing else works on its results.

    ``names`` gets those that stand for it between the map and the model.
    """
    node: ast.expr | None = given
    for _ in range(DEEPEST):
        if isinstance(node, ast.Name):
            names.add(node.id)
            node = name_bindings.latest_assignment(source, node)
        for call in node_lookup.chain_calls(node) if isinstance(node, ast.Call) else ():
            if node_lookup.called_name(call) == "map" and _alike(call, alike):
                return call
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in BEHIND:
                return None
            node = call.func.value
        if not isinstance(node, ast.Name):
            return None
    return None


def used_otherwise(source: Source, given: list[ast.expr], names: set[str]) -> bool:
    """Whether anything but the model, and what makes another of these ``names`` of one, reads its elements."""
    above = node_lookup.parents_of(source)
    for node in (n for name in names for n in name_bindings.reads_of(source, name)):
        statement = node_lookup.enclosing_statement(source, node)
        goes_on = isinstance(statement, ast.Assign) and scope_names.bound_names(statement) <= names
        if node not in given and not (goes_on and isinstance(above.get(node), ast.Attribute)):
            return True
    return False


def _alike(one: ast.Call, other: ast.Call) -> bool:
    mine, its = node_lookup.argument_value(one, "map_func", 0), node_lookup.argument_value(other, "map_func", 0)
    return mine is not None and its is not None and ast.dump(mine) == ast.dump(its)
