"""Where a script defines, stores and changes what belongs to objects and mappings."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from slowtrain.source import FUNCTIONS, Source, kept
from slowtrain.source.reading import finding, index, scopes

Function = ast.FunctionDef | ast.AsyncFunctionDef


def method(kind: ast.ClassDef, name: str) -> Function | None:
    """A class's own method."""
    found = [n for n in kind.body if isinstance(n, FUNCTIONS) and n.name == name]
    return found[0] if len(found) == 1 else None


def defaults(function: Function) -> dict[str, ast.expr]:
    given = function.args
    positional = [a.arg for a in (*given.posonlyargs, *given.args)]
    found = dict(zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True))
    named = zip((a.arg for a in given.kwonlyargs), given.kw_defaults, strict=True)
    return found | {name: value for name, value in named if value is not None}


@kept(16)
def longer(source: Source) -> frozenset[str]:
    """Names of lists that the file makes longer, and of mappings that it puts something into as a whole."""
    calls = index.of(source).called("append", "extend", "insert", "update", "setdefault")
    owners = (c.func.value for c in calls if isinstance(c.func, ast.Attribute))
    found = {o.id if isinstance(o, ast.Name) else getattr(o, "attr", "") for o in owners}
    added = (n.target for n in index.nodes(source, ast.AugAssign) if isinstance(n, ast.AugAssign))
    return frozenset(found | {t.id if isinstance(t, ast.Name) else getattr(t, "attr", "") for t in added})


@kept(16)
def stored_keys(source: Source) -> frozenset[object]:
    """Keys under which the file puts something into a mapping that is there already."""
    found = (n for n in index.nodes(source, ast.Subscript) if isinstance(n, ast.Subscript))
    return frozenset(
        n.slice.value for n in found if isinstance(n.slice, ast.Constant) and not isinstance(n.ctx, ast.Load)
    )


@kept(64)
def _attributes(source: Source) -> dict[str, list[ast.Attribute]]:
    found: dict[str, list[ast.Attribute]] = {}
    for node in index.nodes(source, ast.Attribute):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.setdefault(node.attr, []).append(node)
    return found


def stores(source: Source, name: str) -> list[ast.Attribute]:
    """Where an attribute of this name is assigned, of whatever object."""
    return _attributes(source).get(name, [])


def class_of(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """The class in a method of which ``node`` stands."""
    function: ast.AST | None = finding.function(source, node)
    above = finding.parents(source)
    holder = above.get(function) if function is not None else None
    return holder if isinstance(holder, ast.ClassDef) else None


def of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def last(
    source: Source, node: ast.Name, stores: Sequence[ast.Name], asked: Callable[[ast.expr], object]
) -> ast.Name | None:
    """The assignment of several whose value is read at ``node``; None where that depends."""
    above = finding.parents(source)
    plain = [s for s in stores if not isinstance(above.get(s), ast.AugAssign)]
    if len(plain) == 1:
        return plain[0]
    at = finding.statement(source, node)
    if not plain or finding.function(source, node) is not finding.function(source, plain[0]):
        return None
    while isinstance(at, ast.stmt):
        block = scopes.block(source, at)
        for earlier in reversed(block[: block.index(at)]):
            inside = [s for s in plain if _holds(earlier, s)]
            if not inside:
                continue
            if isinstance(earlier, ast.If):
                taken = asked(earlier.test)
                if taken is False and not any(finding.statement(source, s) in earlier.orelse for s in inside):
                    continue
                chosen = earlier.body if taken is True else ()
                inside = [s for s in inside if finding.statement(source, s) in chosen]
            elif not isinstance(earlier, (ast.Assign, ast.AnnAssign, ast.With)):
                return None
            return inside[-1] if inside else None
        parent = above.get(at)
        again = isinstance(parent, (ast.For, ast.While)) and any(_holds(parent, s) for s in plain)
        if again or not isinstance(parent, ast.stmt) or isinstance(parent, FUNCTIONS):
            return None
        at = parent
    return None


def _holds(statement: ast.stmt, node: ast.expr) -> bool:
    return statement.lineno <= node.lineno <= (statement.end_lineno or statement.lineno)
