"""Functions passed to a call that runs them for each item: ``sorted(all, key=score)``, ``map(f, all)``.

A lambda that only calls a function counts as that function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import FUNCTIONS, Source
from slowtrain.source.reading import finding, objects, scopes, values

KEYED = frozenset({"sorted", "min", "max", "sort", "nlargest", "nsmallest", "groupby"})
MAPPED = frozenset({"map", "filter", "starmap", "imap", "filterfalse", "takewhile", "dropwhile"})
OF_DATA = ("tensorflow.", "keras.")  # their ``map`` traces a function once


def over(source: Source, node: ast.AST) -> Iterator[ast.expr]:
    """The items over which the function or lambda around ``node`` is run by calls that receive it."""
    above = finding.parents(source)
    at = above.get(node)
    while at is not None and not isinstance(at, (*FUNCTIONS, ast.Lambda)):
        at = above.get(at)
    if isinstance(at, ast.Lambda):
        yield from _items(source, at)
    elif at is not None and isinstance(at, FUNCTIONS):
        for given in references(source, at):
            yield from _items(source, given)


def references(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Where a function of the file is named and not called; empty if the name is ambiguous."""
    method = isinstance(finding.parents(source).get(function), ast.ClassDef)
    if not method and finding.defined(source, function.name) is not function:
        return []
    return objects.named(source, function)


def _items(source: Source, given: ast.expr) -> Iterator[ast.expr]:
    """The items for each of which a call runs ``given``."""
    above = finding.parents(source)
    holder = above.get(given)
    if isinstance(holder, ast.keyword) and holder.arg == "key":
        call = above.get(holder)
        if isinstance(call, ast.Call) and finding.called(call) in KEYED:
            first = _first(call, 1 if finding.called(call) in ("nlargest", "nsmallest") else 0)
            yield from (first,) if first is not None else ()
    elif isinstance(holder, ast.Call) and given in holder.args and given is holder.args[0]:
        name, whole = finding.called(holder), values.qualified(source, holder.func)
        if whole.startswith(OF_DATA) or _of_data_set(holder):
            return
        if name in MAPPED and len(holder.args) > 1:
            yield holder.args[1]
        elif name == "apply_along_axis" and len(holder.args) > 2:
            yield holder.args[2]
        elif name == "apply" and isinstance(holder.func, ast.Attribute) and finding.keyword(holder, "axis") is not None:
            yield holder.func.value


def _of_data_set(call: ast.Call) -> bool:
    """Whether it is ``ds.map(f, num_parallel_calls=4)``, or any ``.map`` without items to go over."""
    named = any(k.arg in ("num_parallel_calls", "deterministic") for k in call.keywords)
    return named or (finding.called(call) in ("map", "filter") and len(call.args) == 1)


def _first(call: ast.Call, position: int) -> ast.expr | None:
    if finding.called(call) == "sort" and isinstance(call.func, ast.Attribute):
        return call.func.value
    plain = len(call.args) > position and not any(isinstance(a, ast.Starred) for a in call.args)
    return call.args[position] if plain and scopes.dotted(call.func) else None
