"""Conditions: of which it is sure whether they hold, and which hold in most turns of a loop; where loops are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from slowtrain.source import kept, trees
from slowtrain.source.reading import finding, scopes
from slowtrain.source.reading.abstract.values import NOTHING, Value

if TYPE_CHECKING:
    from slowtrain.source.reading.abstract.machine import Machine
    from slowtrain.source.reading.abstract.names import Scope

OFTEN = 10  # one turn in so many: what steps do, not what reports do


def truth(test: Value) -> bool | None:
    """Whether a condition holds, where that is sure in every turn of every loop."""
    if test.varies or test.known is NOTHING:
        return None
    return bool(test.known)


def usual(machine: Machine, test: ast.expr, scope: Scope) -> bool:
    """Whether a condition holds in many turns: behind a warm-up, or in one of a few (``step % 4 == 0``)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(usual(machine, one, scope) for one in test.values)
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
    """``if step % 100: return``, behind which only one turn in many goes on."""
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
    """Whether a function goes through anything in a loop."""
    todo = trees.below(function) if function is not None else []
    while todo:
        node = todo.pop()
        if isinstance(node, scopes.LOOPS):
            return True
        if not isinstance(node, finding.SCOPES):
            todo += trees.below(node)
    return False
