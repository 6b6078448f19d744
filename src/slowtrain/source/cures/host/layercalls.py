"""A layer called for one element after another, called once for all of them."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

# What they give for a row depends on that row alone, and on what they were adapted to before.
BY_ROW = frozenset("TextVectorization StringLookup IntegerLookup Hashing Discretization".split())
STACKS = frozenset({"numpy.stack", "numpy.array", "numpy.asarray"})
WRAPS = frozenset({"tensorflow.constant", "tensorflow.convert_to_tensor", "numpy.array", "numpy.asarray"})
AS_ARRAY = frozenset({"numpy.array", "numpy.asarray"})
FUNCTION_GIVEN = ("standardize", "split")  # they see the batch and may do anything with it
DEPTH = 4


def for_all(source: Source, line: int) -> list[Edit]:
    """``np.stack([np.asarray(layer([t]))[0] for t in texts])`` at ``line`` as ``np.array(layer(list(texts)))``.

    Or ``for t in texts: rows.append(np.asarray(layer([t]))[0])`` as ``rows.extend(...)`` of it.
    """
    around = [n for n in syntax_tree.walk(source.tree) if getattr(n, "lineno", line + 1) <= line <= _end(n)]
    for node in around:
        if (
            isinstance(node, ast.Call)
            and scope_names.resolved_name(source, node.func) in STACKS
            and len(node.args) == 1
        ):
            inner = node.args[0]
            if not isinstance(inner, (ast.ListComp, ast.GeneratorExp)) or node.keywords or len(inner.generators) != 1:
                continue
            one = inner.generators[0]
            text = "" if one.ifs or one.is_async else _whole(source, inner.elt, one.target, one.iter)
            if text:
                return _replaced(source, node, text)
        if isinstance(node, ast.For) and len(node.body) == 1 and not node.orelse:
            added = _appended(node.body[0])
            text = _whole(source, added.args[0], node.target, node.iter) if added is not None else ""
            if text and added is not None and isinstance(added.func, ast.Attribute):
                return _replaced(source, node, text, f"{edits.node_text(source, added.func.value)}.extend(", ")")
    return []


def _end(node: ast.AST) -> int:
    return getattr(node, "end_lineno", None) or 0


def _replaced(source: Source, node: ast.expr | ast.stmt, text: str, before: str = "", after: str = "") -> list[Edit]:
    numpy, importing = edits.ensure_import(source, "numpy", "np")
    return [*importing, edits.replace_node(source, node, f"{before}{numpy}.array({text}){after}")]


def _appended(one: ast.stmt) -> ast.Call | None:
    """``rows.append(x)``."""
    call = one.value if isinstance(one, ast.Expr) else None
    plain = isinstance(call, ast.Call) and node_lookup.called_name(call) == "append" and len(call.args) == 1
    if not plain or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call if scope_names.dotted_name(call.func.value) else None


def _whole(source: Source, element: ast.expr, target: ast.expr, over: ast.expr) -> str:
    """``layer(list(texts))`` where the element is the first row of ``layer([t])``, as an array; else nothing."""
    if not isinstance(target, ast.Name) or not scope_names.dotted_name(over) or value_kinds.is_dataset(source, over):
        return ""
    rows, array, node = 0, False, element
    while True:
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "0":
            rows, node = rows + 1, node.value
        elif (
            isinstance(node, ast.Call)
            and node_lookup.called_name(node) == "numpy"
            and isinstance(node.func, ast.Attribute)
        ):
            array, node = True, node.func.value
        elif (
            isinstance(node, ast.Call)
            and scope_names.resolved_name(source, node.func) in AS_ARRAY
            and len(node.args) == 1
        ):
            if node.keywords:
                return ""
            array, node = True, node.args[0]
        else:
            break
    if rows != 1 or not array or not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1:
        return ""
    if not _of_one(source, node.args[0], target.id) or not _by_row(source, node.func):
        return ""
    return f"{edits.node_text(source, node.func)}(list({edits.node_text(source, over)}))"


def _of_one(source: Source, given: ast.expr, name: str) -> bool:
    """``[t]``, also as a tensor or an array."""
    if isinstance(given, ast.Call) and scope_names.resolved_name(source, given.func) in WRAPS:
        if len(given.args) != 1 or given.keywords:
            return False
        given = given.args[0]
    return isinstance(given, ast.List) and [scope_names.dotted_name(e) for e in given.elts] == [name]


def _by_row(source: Source, layer: ast.expr, depth: int = DEPTH) -> bool:
    """Whether all that ``layer`` may be is a layer of Keras's that does the same to each row."""
    if isinstance(layer, ast.Call):
        whole = scope_names.resolved_name(source, layer.func)
        if not whole.startswith(("keras.", "tensorflow.keras.")) or node_lookup.called_name(layer) not in BY_ROW:
            return False
        if any(k.arg is None or (k.arg == "ragged" and ast.unparse(k.value) != "False") for k in layer.keywords):
            return False
        plain = (ast.Constant, ast.List)
        return all(isinstance(k.value, plain) for k in layer.keywords if k.arg in FUNCTION_GIVEN)
    if not isinstance(layer, ast.Name) or not depth:
        return False
    scope = value_kinds.binding_function(source, layer)
    if scope is None:
        return False
    if isinstance(scope, FUNCTION_NODES) and layer.id in scope_names.parameter_names(scope):
        given = list(value_kinds.arguments_for(source, scope, layer.id))
        return bool(given) and all(_by_row(source, g, depth - 1) for g in given)
    found = scope_names.binding_statements(source, layer.id, scope)
    values = [n.value for n in found if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    return bool(found) and len(values) == len(found) and all(_by_row(source, v, depth - 1) for v in values)
