"""A data set that every turn of a loop builds anew, built in front of it."""

from __future__ import annotations

import ast

from slowtrain.model import Edit
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import extracting

DRAWN = frozenset("random permutation default_rng choice rng RandomState".split())


def built(source: Source, line: int) -> list[Edit]:
    """The call at ``line`` of a function that makes a data set with a cache, in front of the loops around it.

    Nothing where it is given what a loop binds or uses, or where the function draws before the data set does.
    """
    every = [n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and n.lineno == line]
    calls = [c for c in every if _caching(source, c)]
    around = scope_names.enclosing_loops(source, calls[0]) if len(calls) == 1 else []
    loops = [n for n in around if not (isinstance(n, ast.For) and _within(calls[0], n.iter))]
    if not loops:
        return []
    call, outermost = calls[0], loops[-1]
    given = [*call.args, *(k.value for k in call.keywords)]
    if any(not isinstance(a, (ast.Name, ast.Constant)) for a in given) or any(k.arg is None for k in call.keywords):
        return []
    names = scope_names.read_names(call)
    if any(isinstance(n, ast.Name) and n.id in names and not _within(n, call) for n in syntax_tree.walk(outermost)):
        return []
    name = extracting.free_name(source, "data", "dataset", "batches")
    made = f"{name} = {edits.node_text(source, call)}"
    return [edits.insert_before(source, outermost, made), edits.replace_node(source, call, name)]


def _within(node: ast.AST, above: ast.AST) -> bool:
    return any(n is node for n in syntax_tree.walk(above))


def _caching(source: Source, call: ast.Call) -> bool:
    """Whether it calls a function of the file that builds a data set with a cache, from what it is given alone."""
    function = node_lookup.function_named(source, call.func.id) if isinstance(call.func, ast.Name) else None
    if function is None or function.decorator_list:
        return False
    own = list(scope_names.nodes_in_scope(function.body))
    words = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in own}
    yields = any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)) for n in own)
    return "cache" in words and not words & DRAWN and not yields
