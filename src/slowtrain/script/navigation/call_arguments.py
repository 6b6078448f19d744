"""The arguments that calls give for parameters, and functions that calls receive and run for each item."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import FUNCTION_NODES, Source


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
    return list(call_index.index_of(source).calls_of(name)) if name else []


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


KEY_FUNCTIONS = frozenset({"sorted", "min", "max", "sort", "nlargest", "nsmallest", "groupby"})
MAPPING_FUNCTIONS = frozenset({"map", "filter", "starmap", "imap", "filterfalse", "takewhile", "dropwhile"})
GRAPH_LIBRARIES = ("tensorflow.", "keras.")  # their ``map`` traces a function once


def applied_items(source: Source, node: ast.AST) -> Iterator[ast.expr]:
    """The items over which the function or lambda around ``node`` is run by calls that receive it."""
    above = node_lookup.parents_of(source)
    at = above.get(node)
    while at is not None and not isinstance(at, (*FUNCTION_NODES, ast.Lambda)):
        at = above.get(at)
    if isinstance(at, ast.Lambda):
        yield from _items_of_call(source, at)
    elif at is not None and isinstance(at, FUNCTION_NODES):
        for function in function_references(source, at):
            yield from _items_of_call(source, function)


def function_references(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Where a function of the file is named and not called; empty if the name is ambiguous."""
    if (
        not class_members.is_method(source, function)
        and node_lookup.function_named(source, function.name) is not function
    ):
        return []
    return class_members.uncalled_references(source, function)


def _items_of_call(source: Source, function: ast.expr) -> Iterator[ast.expr]:
    """The items for each of which a call runs ``function``."""
    above = node_lookup.parents_of(source)
    holder = above.get(function)
    if isinstance(holder, ast.keyword) and holder.arg == "key":
        call = above.get(holder)
        if isinstance(call, ast.Call) and node_lookup.called_name(call) in KEY_FUNCTIONS:
            first = _items_argument(call, 1 if node_lookup.called_name(call) in ("nlargest", "nsmallest") else 0)
            yield from (first,) if first is not None else ()
    elif isinstance(holder, ast.Call) and function in holder.args and function is holder.args[0]:
        name, whole = node_lookup.called_name(holder), name_bindings.qualified_name(source, holder.func)
        if whole.startswith(GRAPH_LIBRARIES) or _is_dataset_operation(holder):
            return
        if name in MAPPING_FUNCTIONS and len(holder.args) > 1:
            yield holder.args[1]
        elif name == "apply_along_axis" and len(holder.args) > 2:
            yield holder.args[2]
        elif (
            name == "apply"
            and isinstance(holder.func, ast.Attribute)
            and node_lookup.argument_value(holder, "axis") is not None
        ):
            yield holder.func.value


def _is_dataset_operation(call: ast.Call) -> bool:
    """Whether it is ``ds.map(f, num_parallel_calls=4)``, or any ``.map`` without items to go over."""
    named = any(k.arg in ("num_parallel_calls", "deterministic") for k in call.keywords)
    return named or (node_lookup.called_name(call) in ("map", "filter") and len(call.args) == 1)


def _items_argument(call: ast.Call, position: int) -> ast.expr | None:
    if node_lookup.called_name(call) == "sort" and isinstance(call.func, ast.Attribute):
        return call.func.value
    plain = len(call.args) > position and not any(isinstance(a, ast.Starred) for a in call.args)
    return call.args[position] if plain and scope_names.dotted_name(call.func) else None
