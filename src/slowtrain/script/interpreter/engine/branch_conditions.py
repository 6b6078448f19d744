"""Conditions: whether they surely hold, and whether they hold in most turns; whether functions contain loops."""

from __future__ import annotations

import ast
import re
from contextlib import nullcontext

from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, UNKNOWN, CallArgs, Value, number_value
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

TENSOR_KINDS = ("tensor", "variable")
_GRAPH_PATTERN = re.compile(r"\.function\b|import function\b|\bSession\(")
_TOP_LEVEL_BLOCK = re.compile(r"^(?:for|while|if|with)\b", re.MULTILINE)
USUALLY_TRUE = "usual"  # the ``data`` of a condition that holds in most turns
MAX_FREQUENT_PERIOD = 10  # turns; more often is part of the step, less often is reporting


def starts_graph_program(source: Source) -> bool:
    """Whether running the file starts a loop or a main block in which its own graph may be called."""
    if not _GRAPH_PATTERN.search(source.plain) or not _TOP_LEVEL_BLOCK.search(source.plain):
        return False
    return name_bindings.may_name(source, "tensorflow.")


def condition_value(machine: RunContext, test: ast.expr, scope: Scope) -> Value:
    """The value of a condition; records that Python asks a tensor for its truth."""
    found = machine.value(test, scope)
    _record_truth_test(machine, test, found)
    return found


def boolean_parts(machine: RunContext, node: ast.BoolOp, scope: Scope) -> list[Value]:
    """The parts of ``a and b``. After a part that seldom holds the next one is seldom evaluated."""
    parts: list[Value] = []
    seldom = False
    for one in node.values:
        parts.append(machine.value(one, scope))
        with machine.in_some_turns(UNKNOWN) if seldom else nullcontext():
            _record_truth_test(machine, one, parts[-1])
        sure = parts[-1].kind in TENSOR_KINDS or constant_truth(parts[-1]) is isinstance(node.op, ast.And)
        seldom |= not sure and not holds_usually(machine, one, scope)
    return parts


def _record_truth_test(machine: RunContext, test: ast.expr, found: Value) -> None:
    if found.kind in TENSOR_KINDS and found.name != "symbolic":
        machine.note("bool", None, CallArgs(test, [found]), number_value("bool", found.varies))


def constant_truth(test: Value) -> bool | None:
    """Whether a condition holds, if this is certain in every turn; else None."""
    if test.varies or test.known is NOT_KNOWN:
        return None
    return bool(test.known)


def holds_usually(machine: RunContext, test: ast.expr, scope: Scope) -> bool:
    """Whether a condition holds in many turns: after a warm-up, or once in a few (``step % 4 == 0``)."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(holds_usually(machine, one, scope) for one in test.values)
    if isinstance(test, (ast.Name, ast.Attribute)):
        return bool(machine.value(test, scope).data == USUALLY_TRUE)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    op, left = test.ops[0], test.left
    if isinstance(op, (ast.Gt, ast.GtE)):
        counted = machine.value(left, scope)
        return counted.kind == "number" and counted.name == "int"
    if isinstance(op, ast.Eq) and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
        period = machine.value(left.right, scope).known
        return isinstance(period, int) and period <= MAX_FREQUENT_PERIOD
    return False


def skips_most_turns(machine: RunContext, test: ast.If, scope: Scope) -> bool:
    """Whether it is ``if step % 100: return``, after which only a few turns continue."""
    if test.orelse or not isinstance(test.body[-1], (ast.Return, ast.Continue)):
        return False
    asked = test.test
    if isinstance(asked, ast.Compare) and len(asked.ops) == 1 and isinstance(asked.ops[0], ast.NotEq):
        asked = asked.left
    if not isinstance(asked, ast.BinOp) or not isinstance(asked.op, ast.Mod):
        return False
    period = machine.value(asked.right, scope).known
    return not isinstance(period, int) or period > MAX_FREQUENT_PERIOD


@cache_recent(4096)
def contains_loop(function: ast.AST | None) -> bool:
    """Whether a function contains a loop."""
    todo = syntax_tree.block_statements(function) if function is not None else []
    while todo:
        node = todo.pop()
        if isinstance(node, scope_names.LOOP_NODES):
            return True
        if not isinstance(node, node_lookup.SCOPE_NODES):
            todo += syntax_tree.block_statements(node)
    return False
