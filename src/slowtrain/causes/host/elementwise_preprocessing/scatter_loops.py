"""Loops which add each element to an array place named by the element, like ``np.add.at``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

NUMERIC_BUILTINS = frozenset("int float min max abs round bool len range enumerate zip".split())


def is_scatter_loop(source: Source, loop: ast.For) -> bool:
    """Whether each iteration only computes numbers and stores them at places named by the iterated elements."""
    body = [n for one in loop.body for n in syntax_tree.walk(one)]
    statements = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.Continue, ast.For)
    if loop.orelse or not all(isinstance(n, statements) for n in body if isinstance(n, ast.stmt)):
        return False
    stored = [n for n in body if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    roots = {scope_names.dotted_name(n.value) for n in stored}
    if not stored or not all(_is_numpy_array(source, n.value) for n in stored) or _carries_values(loop):
        return False
    of_turn = _iteration_names(loop)
    if not all(scope_names.read_names(n.slice) & of_turn and _is_single_place(n.slice) for n in stored):
        return False
    read = (n for n in body if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load))
    if any(scope_names.dotted_name(n.value) in roots for n in read):
        return False  # an iteration may read what an earlier one stored
    return all(_is_numeric_call(source, n) for n in body if isinstance(n, ast.Call))


def _is_single_place(at: ast.expr) -> bool:
    """Whether an index is one element and not a row: numbers without a slice."""
    parts = at.elts if isinstance(at, ast.Tuple) else [at]
    return not any(isinstance(p, (ast.Slice, ast.Starred)) or _is_open(p) for p in parts)


def _is_open(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value in (None, Ellipsis)


def _is_numpy_array(source: Source, node: ast.expr) -> bool:
    """Whether it is a NumPy array of known rank."""
    if isinstance(node, ast.Name):
        return queries.kind_at(source, node) == queries.ARRAY and queries.array_rank(source, node) is not None
    if not isinstance(node, ast.Attribute) or not class_members.is_self_attribute(node):
        return False
    given = [name_bindings.assigned_value(source, one) for one in class_members.attribute_stores(source, node.attr)]
    return bool(given) and all(v is not None and queries.kind_at(source, v) == queries.ARRAY for v in given)


def _iteration_names(loop: ast.For) -> set[str]:
    """Return the loop targets, including inner ones, and names computed from them."""
    found = scope_names.bound_names(loop.target)
    for _ in range(3):
        for node in _loop_nodes(loop):
            if isinstance(node, ast.Assign) and scope_names.read_names(node.value) & found:
                found |= {n.id for n in syntax_tree.nodes_inside(node.targets, ast.Name) if _is_store(n)}
            elif isinstance(node, ast.For):
                found |= scope_names.bound_names(node.target)
    return found


def _loop_nodes(loop: ast.For) -> Iterator[ast.AST]:
    return (n for one in loop.body for n in syntax_tree.walk(one))


def _is_store(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _carries_values(loop: ast.For) -> bool:
    """Whether a name carries a value to the next iteration: it is read before assignment, or incremented."""
    names = scope_names.bound_names(loop.body)
    given: set[str] = set()
    for one in loop.body:
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            return True
        if isinstance(one, (ast.If, ast.For)):
            later = syntax_tree.nodes_inside(one, ast.AugAssign)
            if any(isinstance(n.target, ast.Name) for n in later):
                return True
            inner = scope_names.bound_names(one.body) | (
                scope_names.bound_names(one.target) if isinstance(one, ast.For) else set()
            )
            if (scope_names.read_names(one) - inner) & (names - given):
                return True
            given |= inner
            continue
        value = getattr(one, "value", None)
        if value is not None and scope_names.read_names(value) & (names - given):
            return True
        given |= scope_names.bound_names(one)
    return False


def _is_numeric_call(source: Source, call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in NUMERIC_BUILTINS:
        return node_lookup.function_named(source, call.func.id) is None
    whole = name_bindings.qualified_name(source, call.func)
    return whole.startswith(("numpy.", "math.")) and not whole.startswith(("numpy.random.", "numpy.load"))
