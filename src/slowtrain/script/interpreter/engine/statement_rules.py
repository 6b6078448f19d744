"""The interpreter's statements, and whether conditions hold: in every iteration, or in most."""

from __future__ import annotations

import ast
import re
from contextlib import nullcontext
from typing import Any

from slowtrain.script.interpreter.domain import operators
from slowtrain.script.interpreter.domain.abstract_values import (
    NOT_KNOWN,
    UNKNOWN,
    CallArgs,
    Value,
    join_two,
    number_value,
)
from slowtrain.script.interpreter.domain.call_events import Loop
from slowtrain.script.interpreter.domain.run_context import RunContext, Scope
from slowtrain.script.interpreter.engine import call_resolution
from slowtrain.script.interpreter.library import python_builtins
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

# Patterns that begin with letters are found quickly; one that begins with ``\b`` or ``^`` is tried at every character.
_GRAPH_FUNCTION = re.compile(r"function\b(?:(?<=\.function)|(?<=import function))")
_SESSION = re.compile(r"Session\((?<!\wSession\()")
_TOP_LEVEL_BLOCK = re.compile(r"\n(?:for|while|if|with)\b")
USUALLY_TRUE = "usual"  # the ``data`` of a condition that holds in most iterations
RANDOM_NUMBER_FUNCTIONS = frozenset({"rand", "random", "random_sample", "uniform"})
MAX_FREQUENT_PERIOD = 10  # iterations; more often is part of the step, less often is reporting


def starts_graph_program(source: Source) -> bool:
    """Whether running the file starts a loop or a main block in which its own graph may be called."""
    text = source.plain
    if not _GRAPH_FUNCTION.search(text) and not _SESSION.search(text):
        return False
    return _TOP_LEVEL_BLOCK.search(f"\n{text}") is not None and name_bindings.may_name(source, "tensorflow.")


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
        sure = parts[-1].kind in operators.TENSOR_KINDS or constant_truth(parts[-1]) is isinstance(node.op, ast.And)
        seldom |= not sure and not holds_usually(machine, one, scope)
    return parts


def _record_truth_test(machine: RunContext, test: ast.expr, found: Value) -> None:
    if found.kind in operators.TENSOR_KINDS and found.name != "symbolic":
        machine.note("bool", None, CallArgs(test, [found]), number_value("bool", found.varies))


def constant_truth(test: Value) -> bool | None:
    """Whether a condition holds, if this is certain in every iteration; else None."""
    if test.varies or test.known is NOT_KNOWN:
        return None
    return bool(test.known)


def holds_usually(machine: RunContext, test: ast.expr, scope: Scope) -> bool:
    """Whether a condition holds in many iterations: after a warm-up, or once in a few (``step % 4 == 0``)."""
    if chooses_at_random(test):
        return True
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(holds_usually(machine, one, scope) for one in parts)
        case ast.Name() | ast.Attribute():
            return bool(machine.value(test, scope).data == USUALLY_TRUE)
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()]):
            counted = machine.value(left, scope)
            return counted.kind == "number" and counted.name == "int"
        case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=right), ops=[ast.Eq()]):
            period = machine.value(right, scope).known
            return isinstance(period, int) and period <= MAX_FREQUENT_PERIOD
    return False


def excludes_few_turns(machine: RunContext, test: ast.expr, scope: Scope) -> bool:
    """Whether it is ``if step == 0:``, whose other branch runs in almost every iteration, or a random choice."""
    if chooses_at_random(test):
        return True
    match test:
        case ast.Compare(left=ast.Name() as left, ops=[ast.Eq()], comparators=[ast.Constant()]):
            counted = machine.value(left, scope)
            return counted.kind == "number" and counted.name == "int" and bool(counted.varies)
    return False


def chooses_at_random(test: ast.expr) -> bool:
    """Whether it is ``if random.random() < self.epsilon:``, of which both branches run in many iterations."""
    match test:
        case (
            ast.Compare(left=ast.Call() as drawn, comparators=[ast.Name() | ast.Attribute()])
            | ast.Compare(left=ast.Name() | ast.Attribute(), comparators=[ast.Call() as drawn])
        ):
            return node_lookup.called_name(drawn) in RANDOM_NUMBER_FUNCTIONS
    return False


def skips_most_turns(machine: RunContext, test: ast.If, scope: Scope) -> bool:
    """Whether it is ``if step % 100: return``, after which only a few iterations continue."""
    if test.orelse or not isinstance(test.body[-1], (ast.Return, ast.Continue)):
        return False
    match test.test:
        case (
            ast.BinOp(op=ast.Mod(), right=right)
            | ast.Compare(left=ast.BinOp(op=ast.Mod(), right=right), ops=[ast.NotEq()])
        ):
            period = machine.value(right, scope).known
            return not isinstance(period, int) or period > MAX_FREQUENT_PERIOD
    return False


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


def _assign(machine: RunContext, node: Any, scope: Scope) -> None:
    if node.value is None:
        return
    value = machine.value(node.value, scope)
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        machine.store(target, value, scope)


def _augment(machine: RunContext, node: ast.AugAssign, scope: Scope) -> None:
    before = machine.value(_as_load(node.target), scope)
    value = operators.arithmetic_result(node.op, before, machine.value(node.value, scope))
    if value.kind == "array":  # it is changed in place, and keeps its dtype
        value = value.with_fields(dtype=before.dtype if before.kind != "number" else value.dtype)
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
    function = Value("function", node=node, name=node.name, data=scope, born=machine.born())
    for one in reversed(node.decorator_list):
        function = call_resolution.decorated_value(machine, one, function, scope)
    scope.bind(node.name, function, len(machine.loops))


def _define_class(machine: RunContext, node: ast.ClassDef, scope: Scope) -> None:
    inner = machine.register_scope(Scope(scope))
    bases = [machine.value(one, scope) for one in node.bases]
    machine.block(node.body, inner)
    kind = Value("class", node=node, name=node.name, data=bases, items=inner.names)
    for one in inner.names.values():
        if one.kind in ("function", "graph"):
            operators.set_owner_class(one, kind)
    scope.bind(node.name, kind, len(machine.loops))


def _declare(_: RunContext, node: Any, scope: Scope) -> None:
    for name in node.names:
        at = scope.top() if isinstance(node, ast.Global) else scope.above
        while isinstance(node, ast.Nonlocal) and at is not None and name not in at.names:
            at = at.above
        if at is not None:
            scope.elsewhere[name] = at


def _if(machine: RunContext, node: ast.If, scope: Scope) -> bool:
    test = condition_value(machine, node.test, scope)
    sure = constant_truth(test)
    if sure is not None:
        return machine.block(node.body if sure else node.orelse, scope)
    before = dict(scope.names)
    usual = test.data == USUALLY_TRUE or holds_usually(machine, node.test, scope)
    with machine.in_some_turns(test if not usual else None):
        ended = machine.block(node.body, scope)
    after, scope.names = scope.names, before
    often = usual or excludes_few_turns(machine, node.test, scope)
    with machine.in_some_turns(test if not often else None):
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
        condition_value(machine, node.test, scope)
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


def _as_load(target: Any) -> ast.expr:
    """An assignment target as an expression that reads it."""
    fields = {name: getattr(target, name) for name in target._fields} | {"ctx": ast.Load()}
    copy: ast.expr = ast.copy_location(type(target)(**fields), target)
    return copy


STATEMENT_RULES: dict[type[ast.AST], Any] = {
    ast.Expr: lambda machine, node, scope: machine.value(node.value, scope) is None,
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
    ast.Assert: lambda machine, node, scope: condition_value(machine, node.test, scope) is None,
    ast.Import: lambda *_: False,  # imported names are resolved by the file's text
    ast.ImportFrom: lambda *_: False,
}
if hasattr(ast, "TryStar"):
    STATEMENT_RULES[ast.TryStar] = _try
