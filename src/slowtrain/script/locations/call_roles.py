"""Roles of lines: whether they are a model's own arithmetic, or run what the script has compiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.script.text import syntax_tree
from slowtrain.trace.signals.host.source_lines import called_name, calls_of_names, function_around, last_name

COMPILING_FUNCTIONS = frozenset("jit pmap grad value_and_grad vjp function gradient".split())


def is_model_code(tree: ast.Module, line: int, depth: int = 3) -> bool:
    """Whether a line is part of a layer's or model's computation, which runs when the model is first called."""
    function = function_around(tree, line)
    if function is None or not depth:
        return False
    if function.name == "call":
        return True
    return any(is_model_code(tree, one.lineno, depth - 1) for one in calls_of_names(tree, [function.name]))


def calls_compiled_code(tree: ast.Module, parts: Iterable[ast.AST | None]) -> bool:
    """Whether one of these parts of a file calls a function that the file has compiled, or a gradient function."""
    made: set[str] = set()
    for one in syntax_tree.walk(tree):
        if isinstance(one, ast.FunctionDef) and any(_names_compiler(d) for d in one.decorator_list):
            made.add(one.name)
        elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and _names_compiler(one.value):
            made.update(last_name(target) for target in one.targets)
    calls = (n for part in parts if part is not None for n in syntax_tree.walk(part) if isinstance(n, ast.Call))
    return any(called_name(call) in made or _names_compiler(call.func) for call in calls)


def _names_compiler(node: ast.AST) -> bool:
    return any(last_name(n) in COMPILING_FUNCTIONS for n in ast.walk(node))
