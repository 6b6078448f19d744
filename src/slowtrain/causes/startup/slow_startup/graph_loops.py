"""Makes a Python loop inside a graph a loop of the graph, which then contains one iteration."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

COLLECTING_METHODS = frozenset({"append", "extend", "insert", "add", "update", "pop"})  # run once in a graph's loop
LEAVING_STATEMENTS = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.Await)


def loop_in_graph(source: Source, line: int) -> list[Edit]:
    """Replaces ``for _ in range(n)`` at ``line`` by ``for _ in tf.range(n)`` if the body does not read the index."""
    short = scope_names.module_alias(source, "tensorflow")
    found = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.For) and n.lineno == line]
    over = found[0].iter if len(found) == 1 and short else None
    if not isinstance(over, ast.Call) or scope_names.dotted_name(over.func) != "range" or over.keywords:
        return []
    loop = found[0]
    if scope_names.bound_names(loop.target) & scope_names.read_names(loop.body) or not _passes_only_tensors(
        source, loop
    ):
        return []
    return [edits.replace_node(source, over.func, f"{short}.range")]


def _passes_only_tensors(source: Source, loop: ast.For) -> bool:
    """Whether iterations pass values on only by names that exist before the loop, and change no Python object."""
    function = node_lookup.enclosing_function(source, loop)
    if function is None or loop.orelse:
        return False
    for one in scope_names.nodes_in_scope(list(loop.body)):
        if isinstance(one, (*LEAVING_STATEMENTS, *FUNCTION_NODES)) or (
            isinstance(one, ast.Call) and node_lookup.called_name(one) in COLLECTING_METHODS
        ):
            return False
        if isinstance(one, (ast.Subscript, ast.Attribute)) and isinstance(one.ctx, ast.Store):
            return False
    inside = {id(n) for n in syntax_tree.walk(loop)}
    others = [
        n for n in scope_names.nodes_in_scope(list(function.body)) if isinstance(n, ast.Name) and id(n) not in inside
    ]
    ahead = [n for n in others if (n.lineno, n.col_offset) < (loop.lineno, loop.col_offset)]
    before = {n.id for n in ahead if isinstance(n.ctx, ast.Store)} | set(scope_names.parameter_names(function))
    after = {n.id for n in others if n not in ahead and isinstance(n.ctx, ast.Load)}
    return (
        not (scope_names.bound_names(list(loop.body)) & after) - before
        and not scope_names.bound_names(loop.target) & after
    )
