"""Conditions: whether they surely hold, and whether they hold in most turns; whether functions contain loops."""

from __future__ import annotations

import ast
import re
from contextlib import nullcontext
from typing import TYPE_CHECKING

from slowtrain.source import Source, kept, trees
from slowtrain.source.reading import finding, scopes, values
from slowtrain.source.reading.abstract.values import NOTHING, UNKNOWN, Given, Value, number

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine
    from slowtrain.source.reading.abstract.names import Scope

TENSORS = ("tensor", "variable")
_GRAPHS = re.compile(r"\.function\b|import function\b|\bSession\(")
_OUTERMOST = re.compile(r"^(?:for|while|if|with)\b", re.MULTILINE)
USUAL = "usual"  # the ``data`` of a condition that holds in most turns
OFTEN = 10  # turns; more often is part of the step, less often is reporting


def begins(source: Source) -> bool:
    """Whether running the file starts a loop or a main block in which its own graph may be called."""
    if not _GRAPHS.search(source.plain) or not _OUTERMOST.search(source.plain):
        return False
    return values.reaches(source, "tensorflow.")


def asked(machine: Machine, test: ast.expr, scope: Scope) -> Value:
    """The value of a condition; records that Python asks a tensor for its truth."""
    found = machine.value(test, scope)
    _note(machine, test, found)
    return found


def several(machine: Machine, node: ast.BoolOp, scope: Scope) -> list[Value]:
    """The parts of ``a and b``. After a part that seldom holds the next one is seldom evaluated."""
    parts: list[Value] = []
    seldom = False
    for one in node.values:
        parts.append(machine.value(one, scope))
        with machine.sometimes(UNKNOWN) if seldom else nullcontext():
            _note(machine, one, parts[-1])
        sure = parts[-1].kind in TENSORS or truth(parts[-1]) is isinstance(node.op, ast.And)
        seldom |= not sure and not usual(machine, one, scope)
    return parts


def _note(machine: Machine, test: ast.expr, found: Value) -> None:
    if found.kind in TENSORS and found.name != "symbolic":
        machine.note("bool", None, Given(test, [found]), number("bool", found.varies))


def truth(test: Value) -> bool | None:
    """Whether a condition holds, if this is certain in every turn; else None."""
    if test.varies or test.known is NOTHING:
        return None
    return bool(test.known)


def usual(machine: Machine, test: ast.expr, scope: Scope) -> bool:
    """Whether a condition holds in many turns: after a warm-up, or once in a few (``step % 4 == 0``)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(usual(machine, one, scope) for one in test.values)
    if isinstance(test, (ast.Name, ast.Attribute)):
        return bool(machine.value(test, scope).data == USUAL)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    op, left = test.ops[0], test.left
    if isinstance(op, (ast.Gt, ast.GtE)):
        counted = machine.value(left, scope)
        return counted.kind == "number" and counted.name == "int"
    if isinstance(op, ast.Eq) and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
        period = machine.value(left.right, scope).known
        return isinstance(period, int) and period <= OFTEN
    return False


def leaves_most(machine: Machine, test: ast.If, scope: Scope) -> bool:
    """Whether it is ``if step % 100: return``, after which only a few turns continue."""
    if test.orelse or not isinstance(test.body[-1], (ast.Return, ast.Continue)):
        return False
    asked = test.test
    if isinstance(asked, ast.Compare) and len(asked.ops) == 1 and isinstance(asked.ops[0], ast.NotEq):
        asked = asked.left
    if not isinstance(asked, ast.BinOp) or not isinstance(asked.op, ast.Mod):
        return False
    period = machine.value(asked.right, scope).known
    return not isinstance(period, int) or period > OFTEN


@kept(4096)
def goes_through(function: ast.AST | None) -> bool:
    """Whether a function contains a loop."""
    todo = trees.below(function) if function is not None else []
    while todo:
        node = todo.pop()
        if isinstance(node, scopes.LOOPS):
            return True
        if not isinstance(node, finding.SCOPES):
            todo += trees.below(node)
    return False
