"""Ranks of NumPy arrays, as far as the text shows them: how they are created, passed and iterated."""

from __future__ import annotations

import ast

from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

SHAPED_MAKERS = frozenset(
    "zeros ones empty full rand random randn normal uniform randint integers standard_normal poisson".split()
)
SAME_RANK_FUNCTIONS = frozenset(
    "pad zeros_like ones_like empty_like full_like copy sqrt exp abs log array asarray clip".split()
)


Rank = tuple[str, int]  # name of the array of unknown rank or "", and the rank relative to it
SCALAR: Rank = ("", 0)


def array_rank(source: Source, node: ast.AST, depth: int = 6) -> Rank | None:
    """The rank of an array: ("", n), or (name, n) relative to the unknown rank of a name. None if unknown."""
    if isinstance(node, ast.Name):
        return _rank_of_name(source, node, depth) if depth else None
    if isinstance(node, ast.Call):
        return _rank_of_call(source, node, depth)
    if isinstance(node, ast.BinOp):
        sides = [array_rank(source, s, depth) for s in (node.left, node.right) if not isinstance(s, ast.Constant)]
        return sides[0] if sides and all(s == sides[0] for s in sides) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return SCALAR
    return None


def _rank_of_name(source: Source, node: ast.Name, depth: int) -> Rank | None:
    item = _rank_of_item(source, node, depth)
    if item is not None:
        return item
    scope = value_kinds.binding_function(source, node)
    if scope is None:
        return None
    found = scope_names.binding_statements(source, node.id, scope)
    if isinstance(scope, FUNCTION_NODES) and node.id in scope_names.parameter_names(scope):
        if found:
            return None
        given = [array_rank(source, g, depth - 1) for g in value_kinds.arguments_for(source, scope, node.id)]
        given += [_rank_of_mapped_item(source, c, depth) for c in _mapping_calls(source, scope)]
        known = bool(given) and all(g is not None and g == given[0] and not g[0] for g in given)
        return given[0] if known else (node.id, 0)
    if len(found) == 1 and isinstance(found[0], ast.Assign) and isinstance(found[0].targets[0], ast.Name):
        inner = array_rank(source, found[0].value, depth - 1)
        return inner if inner is not None else (node.id, 0)
    each = [n.value for n in found if isinstance(n, ast.Assign)]
    if each and len(each) == len(found) and all(value_kinds.kind_of(source, v) == value_kinds.ARRAY for v in each):
        return (node.id, 0)  # an array, whichever assignment was last
    if len(found) == 1 and isinstance(found[0], ast.For) and isinstance(found[0].target, ast.Name):
        over = array_rank(source, found[0].iter, depth - 1)
        return (over[0], over[1] - 1) if over is not None else None
    return None


def _rank_of_item(source: Source, node: ast.Name, depth: int) -> Rank | None:
    """The rank of a name that a comprehension binds to the items of an array."""
    above = node_lookup.parents_of(source)
    at = above.get(node)
    while at is not None and not isinstance(at, ast.stmt):
        for one in getattr(at, "generators", []):
            if isinstance(one.target, ast.Name) and one.target.id == node.id:
                over = array_rank(source, one.iter, depth - 1)
                return (over[0], over[1] - 1) if over is not None else None
        at = above.get(at)
    return None


def _mapping_calls(source: Source, function: ast.AST) -> list[ast.Call]:
    """Calls that may apply the function to items: ``map(f, a)``."""
    name = getattr(function, "name", "")
    calls = (n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call))
    return [c for c in calls if any(isinstance(a, ast.Name) and a.id == name for a in c.args)]


def _rank_of_mapped_item(source: Source, call: ast.Call, depth: int) -> Rank | None:
    over = (
        array_rank(source, call.args[1], depth - 1)
        if node_lookup.called_name(call) == "map" and len(call.args) == 2
        else None
    )
    return (over[0], over[1] - 1) if over is not None else None


def _rank_of_call(source: Source, call: ast.Call, depth: int) -> Rank | None:
    name, whole = node_lookup.called_name(call), scope_names.resolved_name(source, call.func)
    if name in ("astype", "copy") and isinstance(call.func, ast.Attribute) and not whole.startswith("numpy."):
        return array_rank(source, call.func.value, depth)
    if name in ("rand", "randn") and call.args:
        return ("", len(call.args))
    if name in SHAPED_MAKERS:
        return _rank_from_shape(source, call, depth)
    if name in ("array", "asarray") and call.args:
        return _rank_of_literal(source, call.args[0], depth)
    if name in SAME_RANK_FUNCTIONS and whole.startswith("numpy.") and call.args:
        return array_rank(source, call.args[0], depth)
    return ("", 1) if whole in ("numpy.linspace", "numpy.arange") else None


def _rank_from_shape(source: Source, call: ast.Call, depth: int) -> Rank | None:
    """The rank of an array created from a shape argument, which is first or last."""
    shape = node_lookup.argument_value(call, "size") or node_lookup.argument_value(call, "shape")
    if shape is None and call.args:
        first = node_lookup.called_name(call) in ("zeros", "ones", "empty", "full", "random", "standard_normal")
        shape = call.args[0 if first else -1]
    if isinstance(shape, (ast.Tuple, ast.List)):
        return ("", len(shape.elts))
    if isinstance(shape, ast.Attribute) and shape.attr == "shape":
        return array_rank(source, shape.value, depth)
    counted = isinstance(shape, ast.Call) and node_lookup.called_name(shape) == "len"
    counted = counted or (isinstance(shape, ast.Subscript) and isinstance(shape.value, ast.Attribute))
    return ("", 1) if counted or (isinstance(shape, ast.Constant) and isinstance(shape.value, int)) else None


def _rank_of_literal(source: Source, node: ast.AST, depth: int) -> Rank | None:
    levels = 0
    while isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        levels, node = levels + 1, node.elts[0]
    if isinstance(node, (ast.UnaryOp, ast.Constant)):
        return ("", levels)
    return (
        array_rank(source, node, depth)
        if not levels and not isinstance(node, (ast.ListComp, ast.GeneratorExp))
        else None
    )


def is_array(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds a NumPy array: created by NumPy, or its shape is read in the same scope."""
    if value_kinds.kind_of(source, name) == value_kinds.ARRAY:
        return True
    found = array_rank(source, name)
    if found is not None and not found[0] and found[1] > 0:
        return True
    scope = value_kinds.binding_function(source, name)
    shapes = (
        [n for n in syntax_tree.walk(scope) if isinstance(n, ast.Attribute) and n.attr in ("shape", "ndim")]
        if scope
        else []
    )
    return any(isinstance(n.value, ast.Name) and n.value.id == name.id for n in shapes)
