"""The functions of the script that calls run, and the calls and loops that run a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.evaluators import expression_values
from slowtrain.script.navigation import call_index, class_members, node_lookup, scope_names
from slowtrain.script.navigation.class_members import Function
from slowtrain.script.text.source_file import Source

# Methods of objects of Python, Keras and NumPy: such a call need not mean a class of the file with this method.
COMMON_METHODS = frozenset(n for kind in (dict, list, set, str, bytes, int) for n in vars(kind)) | frozenset(
    "fit predict evaluate compile save build call load read write close open run train test reset next".split()
)


def called_function(source: Source, call: ast.Call) -> Function | None:
    """The function of this file that ``call`` runs; None if that is not certain."""
    of_object = expression_values.static_value(source, call.func)
    if isinstance(of_object, expression_values.Instance):
        return class_members.own_method(of_object.kind, "__call__")
    if isinstance(call.func, ast.Name):
        found = node_lookup.function_named(source, call.func.id, call)
        return None if found is None or class_members.is_method(source, found) else found
    if not isinstance(call.func, ast.Attribute):
        return None
    owner = expression_values.static_value(source, call.func.value)
    if isinstance(owner, expression_values.Instance):
        return class_members.own_method(owner.kind, call.func.attr)
    found = node_lookup.function_named(source, call.func.attr)
    return (
        found
        if found is not None and class_members.is_method(source, found) and call.func.attr not in COMMON_METHODS
        else None
    )


def calls_running(source: Source, made: Function) -> list[ast.Call]:
    """The calls of this file that run a function."""
    return [c for c in call_index.index_of(source).called(made.name) if called_function(source, c) is made]


def returned_values(made: Function) -> list[ast.expr]:
    """The values that a function returns or yields."""
    found = [
        n for n in scope_names.nodes_in_scope(scope_names.scope_body(made)) if isinstance(n, (ast.Return, ast.Yield))
    ]
    return [n.value for n in found if n.value is not None]


def loops_running(source: Source, node: ast.AST, depth: int = 3) -> Iterator[tuple[ast.For | ast.While, ast.stmt]]:
    """The loops in every turn of which ``node`` runs, in its function or its callers, each with the statement there.

    Goes up from a node and stops at anything that decides whether it runs: an ``if``, a loop that may take no turn.
    """
    above = node_lookup.parents_of(source)
    child: ast.AST = node
    at = above.get(node)
    while at is not None:
        if isinstance(at, (ast.For, ast.While)) and isinstance(child, ast.stmt) and child in at.body:
            yield at, child
            return
        if isinstance(at, (ast.If, ast.Try, ast.IfExp, ast.Lambda, ast.ClassDef, *scope_names.COMPREHENSIONS)):
            return
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for call in calls_running(source, at) if depth else ():
                yield from loops_running(source, call, depth - 1)
            return
        child, at = at, above.get(at)
