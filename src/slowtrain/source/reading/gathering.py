"""The lines that make a container longer, found by the name under which it is kept."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.model import Place
from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.reading.recorded import text_of
from slowtrain.trace import Trace, growth
from slowtrain.trace.growth import Holder

MOST_LINES = 3  # of one container

LENGTHENING = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})


def places(trace: Trace, why: Sequence[Holder], *, retraced: bool = False) -> tuple[Place, ...]:
    """The lines that add to what grows; else the one that is traced again; else the call, or the step."""
    found: list[Place] = []
    for one in why:
        text = text_of(trace, one.file) if one.file else None
        if text is not None:
            found += [Place(one.file, line) for line in lines(text, one.named, one.owner)[:MOST_LINES]]
    if not found and retraced:
        found += [e.place for e in trace.events_of("trace") if e.place is not None][-1:]
    last = growth.unit(trace).place or trace.steps.place
    return tuple(dict.fromkeys(found or ([last] if last is not None else [])))


def lines(source: Source, named: str, owner: str) -> list[int]:
    """Lines that add to what is called ``named``, or to what stands under it; those in ``owner`` where there are some.

    ``owner`` is the function or class to which the name belongs, empty for a module's own.
    """
    found = [n.lineno for n in trees.walk(source.tree) if isinstance(n, (ast.expr, ast.stmt)) and _adds(n, named)]
    owners = [n for n in trees.walk(source.tree) if isinstance(n, (*FUNCTIONS, ast.ClassDef)) and n.name == owner]
    inside = [line for line in found if any(o.lineno <= line <= (o.end_lineno or o.lineno) for o in owners)]
    loops = [n for n in trees.walk(source.tree) if isinstance(n, (ast.For, ast.While))]
    chosen = inside or found
    looped = [line for line in chosen if any(n.lineno < line <= (n.end_lineno or 0) for n in loops)]
    return sorted(set(looped or chosen))


def _adds(node: ast.AST, named: str) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return isinstance(function, ast.Attribute) and function.attr in LENGTHENING and _is(function.value, named)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, (ast.Add, ast.BitOr)) and _is(node.target, named)
    if isinstance(node, ast.Assign):
        keyed = any(isinstance(t, ast.Subscript) and _is(t.value, named) for t in node.targets)
        longer = isinstance(node.value, ast.BinOp) and _is(node.value.left, named)
        return keyed or (longer and any(_is(t, named) for t in node.targets))
    return False


def _is(node: ast.AST, named: str) -> bool:
    """Whether an expression is the name, an attribute of that name, or an element of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Name) and node.id == named) or (isinstance(node, ast.Attribute) and node.attr == named)
