"""The functions of the script that calls run, and the calls and loops that run a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source
from slowtrain.source.reading import finding, index, objects, scopes, sizes
from slowtrain.source.reading.objects import Function

# Methods of objects of Python, Keras and NumPy: such a call need not mean a class of the file with this method.
COMMON = frozenset(n for kind in (dict, list, set, str, bytes, int) for n in vars(kind)) | frozenset(
    "fit predict evaluate compile save build call load read write close open run train test reset next".split()
)


def function(source: Source, call: ast.Call) -> Function | None:
    """The function of this file that ``call`` runs; None if that is not certain."""
    of_object = sizes.value(source, call.func)
    if isinstance(of_object, sizes.Thing):
        return objects.method(of_object.kind, "__call__")
    if isinstance(call.func, ast.Name):
        found = finding.defined(source, call.func.id, call)
        return None if found is None or objects.is_method(source, found) else found
    if not isinstance(call.func, ast.Attribute):
        return None
    owner = sizes.value(source, call.func.value)
    if isinstance(owner, sizes.Thing):
        return objects.method(owner.kind, call.func.attr)
    found = finding.defined(source, call.func.attr)
    return found if found is not None and objects.is_method(source, found) and call.func.attr not in COMMON else None


def callers(source: Source, made: Function) -> list[ast.Call]:
    """The calls of this file that run a function."""
    return [c for c in index.of(source).called(made.name) if function(source, c) is made]


def returned(made: Function) -> list[ast.expr]:
    """The values that a function returns or yields."""
    found = [n for n in scopes.own(scopes.body(made)) if isinstance(n, (ast.Return, ast.Yield))]
    return [n.value for n in found if n.value is not None]


def repeated_by(source: Source, node: ast.AST, depth: int = 3) -> Iterator[tuple[ast.For | ast.While, ast.stmt]]:
    """The loops in every turn of which ``node`` runs, in its function or its callers, each with the statement there.

    Goes up from a node and stops at anything that decides whether it runs: an ``if``, a loop that may take no turn.
    """
    above = finding.parents(source)
    child: ast.AST = node
    at = above.get(node)
    while at is not None:
        if isinstance(at, (ast.For, ast.While)) and isinstance(child, ast.stmt) and child in at.body:
            yield at, child
            return
        if isinstance(at, (ast.If, ast.Try, ast.IfExp, ast.Lambda, ast.ClassDef, *scopes.COMPREHENSIONS)):
            return
        if isinstance(at, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for call in callers(source, at) if depth else ():
                yield from repeated_by(source, call, depth - 1)
            return
        child, at = at, above.get(at)
