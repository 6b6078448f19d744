"""Ranks of NumPy arrays, also relative to that of another array."""

from __future__ import annotations

import ast

from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.navigation import call_arguments, name_bindings, node_lookup
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

Rank = tuple[str, int]  # name of the array of unknown rank or "", and the rank relative to it
SCALAR: Rank = ("", 0)


def array_rank(source: Source, node: ast.expr) -> Rank | None:
    """The rank of an array: ("", n), or (name, n) relative to the unknown rank of a name. None if unknown."""
    found = interpreter.value_at(source, node)
    if found.kind == "number":
        return SCALAR
    if found.kind == "array" and found.shape is not None:
        return ("", len(found.shape))
    if not isinstance(node, ast.Name):
        return None
    where = name_bindings.binding_scope(source, node, node.id)
    bound = name_bindings.bindings_of(where, node.id)
    holders = [node_lookup.parents_of(source).get(one) for one in bound]
    loop = holders[0] if len(holders) == 1 else None
    if isinstance(loop, (ast.For, ast.comprehension)):
        over = array_rank(source, loop.iter) if loop.target is bound[0] else None
        return (over[0], over[1] - 1) if over is not None else None
    like = _array_of_same_shape(loop.value) if isinstance(loop, ast.Assign) and loop.targets == [*bound] else None
    if like is not None:
        return array_rank(source, like)
    plain = len(bound) == 1 and (isinstance(bound[0], ast.arg) or isinstance(loop, ast.Assign))
    return (node.id, 0) if plain or found.kind == "array" else None


def _array_of_same_shape(made: ast.expr) -> ast.expr | None:
    """``x`` of ``np.empty(x.shape)`` and ``np.zeros_like(x)``."""
    first = made.args[0] if isinstance(made, ast.Call) and made.args else None
    if isinstance(first, ast.Attribute) and first.attr == "shape":
        return first.value
    return first if isinstance(made, ast.Call) and node_lookup.called_name(made).endswith("_like") else None


def is_array(source: Source, name: ast.Name) -> bool:
    """Whether ``name`` holds a NumPy array: created by NumPy, or its shape is read in the same scope."""
    if queries.kind_at(source, name) == queries.ARRAY:
        return True
    found = array_rank(source, name)
    if found is not None and not found[0] and found[1] > 0:
        return True
    scope = call_arguments.binding_function(source, name)
    shapes = (
        [n for n in syntax_tree.walk(scope) if isinstance(n, ast.Attribute) and n.attr in ("shape", "ndim")]
        if scope
        else []
    )
    return any(isinstance(n.value, ast.Name) and n.value.id == name.id for n in shapes)
