"""Loops in which a script takes its training steps itself, and the code that runs in every turn of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import FUNCTIONS, Source, kept, trees
from slowtrain.source.reading import finding, following, index, scopes
from slowtrain.values import dataclass

ON_BATCH = ("train_on_batch",)


@dataclass(frozen=True)
class Steps:
    """``loop`` takes a step in every turn by ``call``; ``results``: the names that receive what the call returns."""

    loop: ast.For | ast.While
    call: ast.Call
    results: frozenset[str]
    graph: bool  # the step is a function of this file with a gradient tape, not Keras's own


@kept(4)
def of(source: Source) -> tuple[Steps, ...]:
    """The innermost loop around each call of a training step, in functions that are no graphs themselves."""
    found: dict[int, Steps] = {}
    functions = _steps(source)
    for call in index.of(source).called(*ON_BATCH, *functions):
        own = finding.called(call) in functions
        if own and not isinstance(call.func, (ast.Name, ast.Attribute)):
            continue
        loops = scopes.loops(source, call)
        holder = finding.function(source, call)
        if not loops or (holder is not None and holder.decorator_list) or id(loops[0]) in found:
            continue
        found[id(loops[0])] = Steps(loops[0], call, _given(source, call), own)
    return tuple(found.values())


def _steps(source: Source) -> tuple[str, ...]:
    """Names of functions that take a gradient, and of their tf.functions (``step = tf.function(train_step)``)."""
    found: dict[str, None] = {}
    for tape in index.of(source).called("GradientTape"):
        function = finding.function(source, tape)
        if function is not None and not scopes.loops(source, tape):
            found[function.name] = None
    for call in index.of(source).called("function"):  # step = tf.function(train_step)
        statement = finding.statement(source, call)
        given = call.args[0] if call.args else None
        name = given.attr if isinstance(given, ast.Attribute) else getattr(given, "id", "")
        if name in found and isinstance(statement, ast.Assign):
            held = {t.attr for t in statement.targets if isinstance(t, ast.Attribute)}
            found |= dict.fromkeys(sorted(scopes.bound(statement) | held))
    return tuple(found)


def _given(source: Source, call: ast.Call) -> frozenset[str]:
    statement = finding.statement(source, call)
    if isinstance(statement, ast.Assign) and statement.value is call:
        return frozenset(n for t in statement.targets for n in scopes.bound(t))
    return frozenset()


def entered(source: Source, steps: Steps) -> Iterator[tuple[ast.Call, ast.FunctionDef]]:
    """Calls of this file's functions in every turn, in inner loops too, without the step's own."""
    todo = list(each_turn(steps.loop))
    while todo:
        one = todo.pop(0)
        if isinstance(one, (ast.For, ast.While)):
            todo = [*each_turn(one), *todo]
            continue
        for call in (n for n in trees.walk(one) if isinstance(n, ast.Call)):
            made = following.function(source, call) if finding.called(call) != finding.called(steps.call) else None
            if isinstance(made, ast.FunctionDef) and not made.decorator_list:
                yield call, made


def each_turn(loop: ast.For | ast.While | ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements that run in every turn; without branches and inner functions, loops as a whole.

    None after ``if step % 50: return``.
    """
    todo = list(loop.body)
    while todo:
        one = todo.pop(0)
        if isinstance(one, ast.If) and isinstance(one.body[-1], (ast.Return, ast.Continue)) and _counts(one.test):
            return
        if isinstance(one, (ast.If, ast.Try, ast.ClassDef, *FUNCTIONS)):
            if isinstance(one, ast.Try):
                todo = [*one.body, *todo]
            continue
        if isinstance(one, (ast.With, ast.AsyncWith)):
            todo = [*one.body, *todo]
            continue
        yield one


def _counts(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in trees.walk(test))


def inner_epochs(source: Source, steps: Steps) -> bool:
    """Whether another loop in the same function is around the loop, so that its turns are steps and not epochs."""
    return len(scopes.loops(source, steps.loop)) > 0
