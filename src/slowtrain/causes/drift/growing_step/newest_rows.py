"""Keeps a tensor that every step makes longer at its first length."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.properties import graph_obstacles
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

JOINING_FUNCTIONS = frozenset("tensorflow.concat numpy.concatenate keras.ops.concatenate numpy.vstack".split())


def keep_newest_rows(source: Source, line: int) -> list[Edit]:
    """Keeps only the newest rows of ``queue = tf.concat([queue, keys], axis=0)`` in the loop around ``line``.

    It keeps as many rows as the loop started with. Empty if that may be no row.
    """
    found: list[Edit] = []
    joined = [
        n
        for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and _is_in_eager_loop(source, n, line)
    ]
    for one in joined:
        part = _newest_rows_slice(source, one)
        if part is not None and _has_known_start(source, one):
            found += edits.append_to_chain(source, one.value, part)
    return found


def _is_in_eager_loop(source: Source, one: ast.Assign, line: int) -> bool:
    """Whether the assignment is in eager code in a loop that contains ``line``."""
    around = scope_names.enclosing_loops(source, one)
    function = node_lookup.enclosing_function(source, one)
    if not around or (function is not None and graph_obstacles.is_graph_function(source, function)):
        return False
    return any(n.lineno <= line <= (n.end_lineno or 0) for n in around)


def _newest_rows_slice(source: Source, one: ast.Assign) -> str | None:
    """The slice that keeps the number of rows and the newest ones, which are joined after or before the old ones."""
    target, call = one.targets[0], one.value
    if len(one.targets) != 1 or not scope_names.dotted_name(target) or not isinstance(call, ast.Call) or not call.args:
        return None
    whole = scope_names.resolved_name(source, call.func)
    axis = node_lookup.argument_value(call, "axis", 1)
    by_rows = ast.unparse(axis) == "0" if axis is not None else whole in ("numpy.concatenate", "numpy.vstack")
    parts = call.args[0].elts if isinstance(call.args[0], (ast.List, ast.Tuple)) else []
    names = [scope_names.dotted_name(p) for p in parts]
    name = scope_names.dotted_name(target)
    if whole not in JOINING_FUNCTIONS or not by_rows or len(parts) != 2 or names.count(name) != 1:
        return None
    other = parts[1 - names.index(name)]
    if name in {scope_names.dotted_name(n) for n in syntax_tree.walk(other)}:
        return None
    return f"[-{name}.shape[0]:]" if names[0] == name else f"[:{name}.shape[0]]"


def _has_known_start(source: Source, one: ast.Assign) -> bool:
    """Whether the name has one assignment before the loop, whose text shows that it has rows."""
    target = one.targets[0]
    if not isinstance(target, ast.Name):
        return False
    loop = scope_names.enclosing_loops(source, one)[-1]
    found = scope_names.binding_statements(source, target.id, scope_names.enclosing_scope(source, one))
    before = [n for n in found if n is not one]
    if len(before) != 1 or not isinstance(before[0], ast.Assign) or scope_names.enclosing_loops(source, before[0]):
        return False
    value = before[0].value
    empty = any(isinstance(n, ast.Constant) and n.value in (0, None) for n in _first_sizes(value))
    listed = any(isinstance(n, (ast.List, ast.Tuple)) and not n.elts for n in syntax_tree.walk(value))
    return (
        before[0].lineno < loop.lineno
        and isinstance(value, ast.Call)
        and bool(_first_sizes(value))
        and not empty
        and not listed
    )


def _first_sizes(value: ast.expr) -> list[ast.expr]:
    """The first size of each shape in an expression: ``cfg.bank`` for ``[cfg.bank, cfg.dim]``."""
    shapes = [n for n in syntax_tree.walk(value) if isinstance(n, (ast.List, ast.Tuple)) and len(n.elts) > 1]
    return [n.elts[0] for n in shapes]
