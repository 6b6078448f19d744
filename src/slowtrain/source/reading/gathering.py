"""The lines that lengthen a container, found by the name that holds it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain import source
from slowtrain.model import Place
from slowtrain.source import FUNCTIONS, Source, trees
from slowtrain.source.reading import finding
from slowtrain.source.reading.recorded import text_of
from slowtrain.trace import Trace, growth
from slowtrain.trace.held import Holder

MOST_LINES = 3  # lines per container

LENGTHENING = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})
JOINING = frozenset("append concat concatenate hstack vstack dstack column_stack row_stack insert resize pad".split())


def places(trace: Trace, why: Sequence[Holder], *, retraced: bool = False) -> tuple[Place, ...]:
    """The lines that lengthen what grows; else the function that is traced again; else the call or the step."""
    found = adding(trace, why)
    if not found and retraced:
        found += [e.place for e in trace.events_of("trace") if e.place is not None][-1:]
    last = growth.unit(trace).place or trace.steps.place
    return tuple(dict.fromkeys(found or ([last] if last is not None else [])))


def adding(trace: Trace, why: Sequence[Holder]) -> list[Place]:
    """The lines that lengthen what grows, as far as the text shows them."""
    found: list[Place] = []
    for one in why:
        found += one.sites
        for text in _texts(trace, one.file):
            found += [Place(text.file, n) for n in lines(text, one.named, one.owner, array=one.array)[:MOST_LINES]]
    return found


def _texts(trace: Trace, file: str) -> list[Source]:
    """The text of a file; without a file name, of a notebook's cells."""
    if file:
        found = [text_of(trace, file)]
    else:
        found = [source.parse(name, text) for name, text in (trace.fact("cells") or {}).items()]
    return [text for text in found if text is not None]


def lines(source: Source, named: str, owner: str, *, array: bool = False) -> list[int]:
    """Lines that lengthen the container ``named``, or one stored in it; those in ``owner`` if there are any.

    ``owner`` is the function or class that binds the name, empty for a module. An ``array`` is replaced by a longer
    one; if no line joins arrays, the lines in loops that rebind the name.
    """
    statements = [n for n in trees.walk(source.tree) if isinstance(n, (ast.expr, ast.stmt))]
    found = [n.lineno for n in statements if (_joins if array else _adds)(n, named)]
    if array and not found:
        found = [n.lineno for n in statements if isinstance(n, ast.Assign) and _binds(n, named)]
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
        spread = isinstance(node.value, (ast.List, ast.Tuple)) and any(
            isinstance(e, ast.Starred) and _is(e.value, named) for e in node.value.elts
        )
        return keyed or ((longer or spread) and any(_is(t, named) for t in node.targets))
    return False


def _binds(node: ast.Assign, named: str) -> bool:
    """Whether it assigns the name, also as one of several targets."""
    targets = [e for t in node.targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return any(_is(t, named) for t in targets)


def _joins(node: ast.AST, named: str) -> bool:
    """Whether it is ``a = np.concatenate([a, b])``, also nested, or ``a = a.append(b)`` of a table."""
    if not isinstance(node, ast.Assign) or not _binds(node, named):
        return False
    for call in trees.walk(node.value):
        if isinstance(call, ast.Subscript) and _is_indexed(call, named):  # np.r_[a, b]
            return True
        if not isinstance(call, ast.Call) or finding.called(call) not in JOINING:
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        given += [e for one in given if isinstance(one, (ast.List, ast.Tuple)) for e in one.elts]
        given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if any(_is(one, named) for one in given):
            return True
    return False


def _is_indexed(node: ast.Subscript, named: str) -> bool:
    """Whether it is ``np.r_[a, b]`` or ``np.c_[a, b]``."""
    owner, at = node.value, node.slice
    joins = isinstance(owner, ast.Attribute) and owner.attr in ("r_", "c_")
    return joins and isinstance(at, ast.Tuple) and any(_is(one, named) for one in at.elts)


def _is(node: ast.AST, named: str) -> bool:
    """Whether an expression is the name, an attribute of that name, or an item of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Name) and node.id == named) or (isinstance(node, ast.Attribute) and node.attr == named)
