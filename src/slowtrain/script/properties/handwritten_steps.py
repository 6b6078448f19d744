"""Loops in which a script takes its training steps itself, and the code that runs in every turn of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

BATCH_CALLS = ("train_on_batch",)


@dataclass(frozen=True)
class StepLoop:
    """``loop`` takes a step in every turn by ``call``; ``results``: the names that receive what the call returns."""

    loop: ast.For | ast.While
    call: ast.Call
    results: frozenset[str]
    graph: bool  # the step is a function of this file with a gradient tape, not Keras's own


@cache_recent(4)
def step_loops_of(source: Source) -> tuple[StepLoop, ...]:
    """The innermost loop around each call of a training step, in functions that are no graphs themselves."""
    found: dict[int, StepLoop] = {}
    functions = _step_functions(source)
    for call in call_index.index_of(source).called(*BATCH_CALLS, *functions):
        own = node_lookup.called_name(call) in functions
        if own and not isinstance(call.func, (ast.Name, ast.Attribute)):
            continue
        loops = scope_names.enclosing_loops(source, call)
        holder = node_lookup.enclosing_function(source, call)
        if not loops or (holder is not None and holder.decorator_list) or id(loops[0]) in found:
            continue
        found[id(loops[0])] = StepLoop(loops[0], call, _result_names(source, call), own)
    return tuple(found.values())


def _step_functions(source: Source) -> tuple[str, ...]:
    """Names of functions that take a gradient, and of their tf.functions (``step = tf.function(train_step)``)."""
    found: dict[str, None] = {}
    for tape in call_index.index_of(source).called("GradientTape"):
        function = node_lookup.enclosing_function(source, tape)
        if function is not None and not scope_names.enclosing_loops(source, tape):
            found[function.name] = None
    for call in call_index.index_of(source).called("function"):  # step = tf.function(train_step)
        statement = node_lookup.enclosing_statement(source, call)
        given = call.args[0] if call.args else None
        name = given.attr if isinstance(given, ast.Attribute) else getattr(given, "id", "")
        if name in found and isinstance(statement, ast.Assign):
            held = {t.attr for t in statement.targets if isinstance(t, ast.Attribute)}
            found |= dict.fromkeys(sorted(scope_names.bound_names(statement) | held))
    return tuple(found)


def _result_names(source: Source, call: ast.Call) -> frozenset[str]:
    statement = node_lookup.enclosing_statement(source, call)
    if isinstance(statement, ast.Assign) and statement.value is call:
        return frozenset(n for t in statement.targets for n in scope_names.bound_names(t))
    return frozenset()


def functions_per_turn(source: Source, steps: StepLoop) -> Iterator[tuple[ast.Call, ast.FunctionDef]]:
    """Calls of this file's functions in every turn, in inner loops too, without the step's own."""
    todo = list(statements_per_turn(steps.loop))
    while todo:
        one = todo.pop(0)
        if isinstance(one, (ast.For, ast.While)):
            todo = [*statements_per_turn(one), *todo]
            continue
        for call in (n for n in syntax_tree.walk(one) if isinstance(n, ast.Call)):
            made = (
                queries.called_function(source, call)
                if node_lookup.called_name(call) != node_lookup.called_name(steps.call)
                else None
            )
            if isinstance(made, ast.FunctionDef) and not made.decorator_list:
                yield call, made


def statements_per_turn(loop: ast.For | ast.While | ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements that run in every turn; without branches and inner functions, loops as a whole.

    None after ``if step % 50: return``.
    """
    todo = list(loop.body)
    while todo:
        one = todo.pop(0)
        if (
            isinstance(one, ast.If)
            and isinstance(one.body[-1], (ast.Return, ast.Continue))
            and _tests_counter(one.test)
        ):
            return
        if isinstance(one, (ast.If, ast.Try, ast.ClassDef, *FUNCTION_NODES)):
            if isinstance(one, ast.Try):
                todo = [*one.body, *todo]
            continue
        if isinstance(one, (ast.With, ast.AsyncWith)):
            todo = [*one.body, *todo]
            continue
        yield one


def _tests_counter(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in syntax_tree.walk(test))


def has_outer_loop(source: Source, steps: StepLoop) -> bool:
    """Whether another loop in the same function is around the loop, so that its turns are steps and not epochs."""
    return len(scope_names.enclosing_loops(source, steps.loop)) > 0
