"""The arguments that calls give for the parameters of a function, and the function that binds a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text.source_file import Source


def binding_function(source: Source, name: ast.Name) -> ast.AST | None:
    """The function or module that binds the name at ``name``; lambdas do not count."""
    scope: ast.AST | None = node_lookup.enclosing_function(source, name)
    while scope is not None:
        if name.id in scope_names.parameter_names(scope):
            return scope
        if name.id in scope_names.bound_names(
            scope_names.scope_body(scope)
        ) and name.id not in scope_names.declared_outer_names(scope):
            return scope
        scope = node_lookup.enclosing_function(source, scope)
    return source.tree if name.id in scope_names.bound_names(source.tree.body) else None


def arguments_for(source: Source, function: ast.AST, parameter: str) -> Iterator[ast.expr]:
    """The arguments that calls by name in this file give for ``parameter``; defaults do not count."""
    for call in function_calls(source, function):
        found = argument_in(function, call, parameter)
        if found is not None:
            yield found


def function_calls(source: Source, function: ast.AST) -> list[ast.Call]:
    name = getattr(function, "name", None)
    return list(call_index.index_of(source).called(name)) if name else []


def argument_in(function: ast.AST, call: ast.Call, parameter: str) -> ast.expr | None:
    """The argument of ``call`` for ``parameter``; None if stars hide it."""
    names = scope_names.parameter_names(function)
    if names[:1] in (["self"], ["cls"]) and isinstance(call.func, ast.Attribute):
        names = names[1:]
    if len(call.args) == 1 and isinstance(call.args[0], ast.Starred) and not call.keywords:
        return call.args[0].value  # an item of it has the same kind
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return None
    return node_lookup.argument_value(call, parameter, names.index(parameter)) if parameter in names else None
