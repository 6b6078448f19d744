"""The lines that lengthen a container, found by the name that holds it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from slowtrain.model import Place
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import source_file, syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.trace import Trace
from slowtrain.trace.signals import memory_growth
from slowtrain.trace.signals.growth_suspects import GrowingContainer

MAX_LINES = 3  # lines per container

LENGTHENING_METHODS = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})
JOINING_FUNCTIONS = frozenset(
    "append concat concatenate hstack vstack dstack column_stack row_stack insert resize pad".split()
)


def growth_places(trace: Trace, why: Sequence[GrowingContainer], *, retraced: bool = False) -> tuple[Place, ...]:
    """The lines that lengthen what grows; else the function that is traced again; else the call or the step."""
    found = adding_places(trace, why)
    if not found and retraced:
        found += [e.place for e in trace.events_of("trace") if e.place is not None][-1:]
    last = memory_growth.growth_unit(trace).place or trace.steps.place
    return tuple(dict.fromkeys(found or ([last] if last is not None else [])))


def adding_places(trace: Trace, why: Sequence[GrowingContainer]) -> list[Place]:
    """The lines that lengthen what grows, as far as the text shows them."""
    found: list[Place] = []
    for one in why:
        found += one.sites
        for text in _source_texts(trace, one.file):
            found += [
                Place(text.file, n) for n in lengthening_lines(text, one.named, one.owner, array=one.array)[:MAX_LINES]
            ]
    return found


def _source_texts(trace: Trace, file: str) -> list[Source]:
    """The text of a file; without a file name, of a notebook's cells."""
    if file:
        found = [recorded_source(trace, file)]
    else:
        found = [source_file.parse_source(name, text) for name, text in (trace.fact("cells") or {}).items()]
    return [text for text in found if text is not None]


def lengthening_lines(source: Source, named: str, owner: str, *, array: bool = False) -> list[int]:
    """Lines that lengthen the container ``named``, or one stored in it; those in ``owner`` if there are any.

    ``owner`` is the function or class that binds the name, empty for a module. An ``array`` is replaced by a longer
    one; if no line joins arrays, the lines in loops that rebind the name.
    """
    statements = [n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.expr, ast.stmt))]
    found = [n.lineno for n in statements if (_joins_parts if array else _lengthens)(n, named)]
    if array and not found:
        found = [n.lineno for n in statements if isinstance(n, ast.Assign) and _binds_name(n, named)]
    owners = [
        n for n in syntax_tree.walk(source.tree) if isinstance(n, (*FUNCTION_NODES, ast.ClassDef)) and n.name == owner
    ]
    inside = [line for line in found if any(o.lineno <= line <= (o.end_lineno or o.lineno) for o in owners)]
    loops = [n for n in syntax_tree.walk(source.tree) if isinstance(n, (ast.For, ast.While))]
    chosen = inside or found
    looped = [line for line in chosen if any(n.lineno < line <= (n.end_lineno or 0) for n in loops)]
    return sorted(set(looped or chosen))


def _lengthens(node: ast.AST, named: str) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return (
            isinstance(function, ast.Attribute)
            and function.attr in LENGTHENING_METHODS
            and _is_container(function.value, named)
        )
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, (ast.Add, ast.BitOr)) and _is_container(node.target, named)
    if isinstance(node, ast.Assign):
        keyed = any(isinstance(t, ast.Subscript) and _is_container(t.value, named) for t in node.targets)
        longer = isinstance(node.value, ast.BinOp) and _is_container(node.value.left, named)
        spread = isinstance(node.value, (ast.List, ast.Tuple)) and any(
            isinstance(e, ast.Starred) and _is_container(e.value, named) for e in node.value.elts
        )
        return keyed or ((longer or spread) and any(_is_container(t, named) for t in node.targets))
    return False


def _binds_name(node: ast.Assign, named: str) -> bool:
    """Whether it assigns the name, also as one of several targets."""
    targets = [e for t in node.targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])]
    return any(_is_container(t, named) for t in targets)


def _joins_parts(node: ast.AST, named: str) -> bool:
    """Whether it is ``a = np.concatenate([a, b])``, also nested, or ``a = a.append(b)`` of a table."""
    if not isinstance(node, ast.Assign) or not _binds_name(node, named):
        return False
    for call in syntax_tree.walk(node.value):
        if isinstance(call, ast.Subscript) and _is_index_join(call, named):  # np.r_[a, b]
            return True
        if not isinstance(call, ast.Call) or node_lookup.called_name(call) not in JOINING_FUNCTIONS:
            continue
        given = [*call.args, *(k.value for k in call.keywords)]
        given += [e for one in given if isinstance(one, (ast.List, ast.Tuple)) for e in one.elts]
        given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if any(_is_container(one, named) for one in given):
            return True
    return False


def _is_index_join(node: ast.Subscript, named: str) -> bool:
    """Whether it is ``np.r_[a, b]`` or ``np.c_[a, b]``."""
    owner, at = node.value, node.slice
    joins = isinstance(owner, ast.Attribute) and owner.attr in ("r_", "c_")
    return joins and isinstance(at, ast.Tuple) and any(_is_container(one, named) for one in at.elts)


def _is_container(node: ast.AST, named: str) -> bool:
    """Whether an expression is the name, an attribute of that name, or an item of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return (isinstance(node, ast.Name) and node.id == named) or (isinstance(node, ast.Attribute) and node.attr == named)
