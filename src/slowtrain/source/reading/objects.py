"""Where a script defines, stores and changes what belongs to objects and mappings."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from slowtrain.source import FUNCTIONS, Source, kept
from slowtrain.source.reading import finding, index, scopes

Function = ast.FunctionDef | ast.AsyncFunctionDef
Thunk = Callable[[], Any]


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


@kept(64)
def key_stored(source: Source, key: str) -> bool:
    """Whether the file puts something under this key into a mapping that is there already."""
    found = index.written(source, re.compile(rf"\[\s*[\"']{re.escape(key)}[\"']"), ast.Subscript)
    return any(
        isinstance(n, ast.Subscript)
        and not isinstance(n.ctx, ast.Load)
        and isinstance(n.slice, ast.Constant)
        and n.slice.value == key
        for n in found
    )


@kept(256)
def stores(source: Source, name: str) -> list[ast.Attribute]:
    """Where an attribute of this name is assigned, of whatever object."""
    found = index.written(source, re.compile(rf"\.\s*{name}\b"), ast.Attribute)
    named = [n for n in found if isinstance(n, ast.Attribute) and n.attr == name]
    return [n for n in named if not isinstance(n.ctx, ast.Load)]


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
                if taken is None and all(_neutral(source, s) for s in inside):
                    continue
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


def same(thunks: Sequence[Thunk | None]) -> Thunk:
    """What several calls give, where they give the same."""

    def asked() -> Any:
        found = [t() if t is not None else None for t in thunks]
        alike = all(type(f) is type(found[0]) and f == found[0] for f in found)
        return found[0] if found and alike else None

    return asked


def fixed(known: Any) -> Thunk:
    return lambda: known


def options(source: Source, asked: Callable[[ast.expr], object]) -> dict[str, Any] | None:
    """The defaults of a command line's options, where one parser has them."""
    if len(index.of(source).called("ArgumentParser")) != 1 or index.of(source).called("set_defaults"):
        return None
    found: dict[str, Any] = {}
    for call in index.of(source).called("add_argument"):
        flags = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        long = [f for f in flags if f.startswith("--")] or flags
        target, given = finding.keyword(call, "dest"), finding.keyword(call, "default")
        flag = long[0].lstrip("-").replace("-", "_") if long else ""
        stands = target.value if isinstance(target, ast.Constant) else flag
        if isinstance(given, ast.Constant):
            found[str(stands)] = given.value
        elif finding.keyword(call, "action") is not None and given is None:
            found[str(stands)] = None  # a switch: whichever
        elif given is not None:
            found[str(stands)] = asked(given)
    return found


def _neutral(source: Source, stored: ast.Name) -> bool:
    """``ds = ds.shuffle(n)``: what is in it, and how much, stays."""
    value = getattr(finding.parents(source).get(stored), "value", None)
    calls = list(finding.chain(value)) if isinstance(value, ast.Call) else []
    root = calls[-1].func.value if calls and isinstance(calls[-1].func, ast.Attribute) else None
    same = isinstance(root, ast.Name) and root.id == stored.id
    return same and all(finding.called(c) in ("shuffle", "cache", "prefetch", "with_options") for c in calls)
