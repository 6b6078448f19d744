"""The interpreter's statements."""

from __future__ import annotations

import ast
from typing import Any

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import UNKNOWN, Value, join_two
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.interpreter.engine import branch_conditions, call_resolution, expression_rules
from slowtrain.script.interpreter.library import python_builtins


def _assign(machine: RunContext, node: Any, scope: Scope) -> None:
    if node.value is None:
        return
    value = machine.value(node.value, scope)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        machine.store(target, value, scope)


def _augment(machine: RunContext, node: ast.AugAssign, scope: Scope) -> None:
    before = machine.value(expression_rules.as_load(node.target), scope)
    value = operators.arithmetic_result(node.op, before, machine.value(node.value, scope))
    depth = len(machine.loops)
    if isinstance(node.target, ast.Name):
        depth = scope.elsewhere.get(node.target.id, scope).depths.get(node.target.id, 0)
    elif isinstance(node.target, ast.Attribute):
        depth = len(machine.value(node.target.value, scope).born)
    value = value.varying_in(loop.number for loop in machine.loops[depth:])
    if isinstance(node.target, ast.Name):
        scope.elsewhere.get(node.target.id, scope).names[node.target.id] = value
    else:
        machine.store(node.target, value, scope)


def _delete(machine: RunContext, node: ast.Delete, scope: Scope) -> None:
    for one in node.targets:
        if isinstance(one, ast.Subscript):
            operators.forget_positions(machine.value(one.value, scope))


def _return(machine: RunContext, node: ast.Return, scope: Scope) -> bool:
    scope.returned.append(machine.value(node.value, scope) if node.value is not None else Value("none", None))
    return True


def _define(machine: RunContext, node: ast.FunctionDef, scope: Scope) -> None:
    made = Value("function", node=node, name=node.name, data=scope, born=machine.born())
    for one in reversed(node.decorator_list):
        made = call_resolution.decorated_value(machine, one, made, scope)
    scope.bind(node.name, made, len(machine.loops))


def _define_class(machine: RunContext, node: ast.ClassDef, scope: Scope) -> None:
    inner = machine.opened(Scope(scope))
    bases = [machine.value(one, scope) for one in node.bases]
    machine.block(node.body, inner)
    made = Value("class", node=node, name=node.name, data=bases, items=inner.names)
    for one in inner.names.values():
        if one.kind in ("function", "graph"):
            operators.set_owner_class(one, made)
    scope.bind(node.name, made, len(machine.loops))


def _declare(_: RunContext, node: Any, scope: Scope) -> None:
    for name in node.names:
        at = scope.top() if isinstance(node, ast.Global) else scope.above
        while isinstance(node, ast.Nonlocal) and at is not None and name not in at.names:
            at = at.above
        if at is not None:
            scope.elsewhere[name] = at


def _if(machine: RunContext, node: ast.If, scope: Scope) -> bool:
    test = branch_conditions.condition_value(machine, node.test, scope)
    sure = branch_conditions.constant_truth(test)
    if sure is not None:
        return machine.block(node.body if sure else node.orelse, scope)
    before = dict(scope.names)
    usual = test.data == branch_conditions.USUALLY_TRUE or branch_conditions.holds_usually(machine, node.test, scope)
    with machine.in_some_turns(test if not usual else None):
        ended = machine.block(node.body, scope)
        after, scope.names = scope.names, before
        ended_too = machine.block(node.orelse, scope)
    if ended and not ended_too:
        return False  # the first branch has left the block
    if ended_too and not ended:
        scope.names = after
        return False
    for name, value in after.items():
        other = scope.names.get(name)
        scope.names[name] = value if other is None else join_two(value, other)
    return ended and ended_too and bool(node.orelse)


def _for(machine: RunContext, node: ast.For, scope: Scope) -> bool:
    items = machine.value(node.iter, scope)

    def turn(loop: Loop) -> None:
        machine.store(node.target, call_resolution.loop_item(machine, items, loop, node), scope)
        machine.block(node.body, scope)

    for one in (several := python_builtins.unrolled_items(items, node)):
        machine.store(node.target, one, scope)
        machine.block(node.body, scope)
    if not several:
        machine.loop(node, operators.known_length(items), items, turn, scope)
    return machine.block(node.orelse, scope) and False


def _while(machine: RunContext, node: ast.While, scope: Scope) -> bool:
    def turn(_: Loop) -> None:
        branch_conditions.condition_value(machine, node.test, scope)
        machine.block(node.body, scope)

    machine.loop(node, None, UNKNOWN, turn, scope)
    return False


def _with(machine: RunContext, node: ast.With, scope: Scope) -> bool:
    for one in node.items:
        value = machine.value(one.context_expr, scope)
        if one.optional_vars is not None:
            machine.store(one.optional_vars, value, scope)
    return machine.block(node.body, scope)


def _try(machine: RunContext, node: Any, scope: Scope) -> bool:
    ended = machine.block(node.body, scope)
    for one in node.handlers:
        with machine.in_some_turns(UNKNOWN):
            machine.block(one.body, scope)
    return machine.block([*([] if ended else node.orelse), *node.finalbody], scope) or ended


def _match(machine: RunContext, node: ast.Match, scope: Scope) -> bool:
    test = machine.value(node.subject, scope)
    with machine.in_some_turns(test):
        for case in node.cases:
            machine.block(case.body, scope)
    return False


STATEMENT_RULES: dict[type[ast.AST], Any] = {
    ast.Assign: _assign,
    ast.AnnAssign: _assign,
    ast.AugAssign: _augment,
    ast.Return: _return,
    ast.Delete: _delete,
    ast.FunctionDef: _define,
    ast.AsyncFunctionDef: _define,
    ast.ClassDef: _define_class,
    ast.Global: _declare,
    ast.Nonlocal: _declare,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    ast.Assert: lambda machine, node, scope: branch_conditions.condition_value(machine, node.test, scope) is None,
    ast.Import: lambda *_: False,  # imported names are resolved by the file's text
    ast.ImportFrom: lambda *_: False,
}
if hasattr(ast, "TryStar"):
    STATEMENT_RULES[ast.TryStar] = _try
