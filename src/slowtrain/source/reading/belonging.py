"""Roles of lines: whether they are a model's own arithmetic, or run what the script has compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.source import trees
from slowtrain.trace.lines import called, calls_of, function_around, named

COMPILING = frozenset("jit pmap grad value_and_grad vjp function gradient".split())


def of_model(tree: ast.Module, line: int, depth: int = 3) -> bool:
    """Whether a line is part of a layer's or model's computation, which runs when the model is first called."""
    function = function_around(tree, line)
    if function is None or not depth:
        return False
    if function.name == "call":
        return True
    return any(of_model(tree, one.lineno, depth - 1) for one in calls_of(tree, [function.name]))


def compiled(tree: ast.Module, parts: Iterable[ast.AST | None]) -> bool:
    """Whether one of these parts of a file calls a function that the file has compiled, or a gradient function."""
    made: set[str] = set()
    for one in trees.walk(tree):
        if isinstance(one, ast.FunctionDef) and any(_makes(d) for d in one.decorator_list):
            made.add(one.name)
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and _makes(one.value):
            made.update(named(target) for target in one.targets)
    calls = (n for part in parts if part is not None for n in trees.walk(part) if isinstance(n, ast.Call))
    return any(called(call) in made or _makes(call.func) for call in calls)


def _makes(node: ast.AST) -> bool:
    return any(named(n) in COMPILING for n in ast.walk(node))
