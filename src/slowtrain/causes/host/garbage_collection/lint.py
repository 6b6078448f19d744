"""Finds the cause host/garbage-collection in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.loops import moved_statements, periodic_work
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import (
    call_arguments,
    call_index,
    class_members,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

MAX_PERIOD_STEPS = 10  # between two collections: one takes as long as several steps of most models
CONTEXT_METHODS = ("__enter__", "__exit__")


def find_spots(source: Source) -> Iterable[Spot]:
    """``gc.collect()`` next to a training step in its loop, or in a hook of each batch."""
    known = tuple(frequent_collect_calls(source))
    for call in known or dict.fromkeys(frequent_collections(source)):
        after = "collect after the loop, or not at all"
        cure = Prescription(
            "edit", Effect.EXACT, after, edits=tuple(moved_statements.move_collect_after_loop(source, call.lineno))
        )
        says = "the collector goes through all objects after each step, which a step hardly needs"
        yield spots.node_spot(call, says, cure)


def frequent_collections(source: Source) -> Iterator[ast.expr]:
    """Find ``gc.collect()`` after each step, or each of a few."""
    for event in file_events(source) if "gc" in source.text else ():
        if event.name == "gc.collect" and step_loops.per_step_loop(source, event) is not None:
            yield event.node


def frequent_collect_calls(source: Source) -> Iterator[ast.Call]:
    """Each ``gc.collect()`` in every iteration of a loop that takes a step, or in a hook of every batch."""
    for call in call_index.index_of(source).calls_of("collect"):
        statement = node_lookup.enclosing_statement(source, call)
        if name_bindings.qualified_name(source, call.func) != "gc.collect" or statement is None:
            continue
        if _is_in_hook_lambda(source, call):
            yield call
        elif isinstance(statement, ast.Expr) and statement.value is not call:
            continue
        elif isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) and _runs_every_step(source, statement):
            yield call


def _runs_every_step(source: Source, statement: ast.stmt) -> bool:
    function = node_lookup.enclosing_function(source, statement)
    at = _equally_frequent_statement(source, statement)
    if function is None:
        return _runs_next_to_step(source, at)
    if function.name in CONTEXT_METHODS:
        return node_lookup.parents_of(source).get(at) is function and _is_entered_by_loop(source, function)
    if function.name in keras_names.BATCH_HOOKS:
        return at in function.body
    if at in function.body and (_is_step_context_manager(source, function) or _is_step_wrapper(source, function)):
        return True
    return _runs_next_to_step(source, at) or (at in function.body and _is_passed_as_hook(source, function))


def _equally_frequent_statement(source: Source, at: ast.stmt) -> ast.stmt:
    """The outermost statement that runs about as often: a ``try`` around it, or a test that is true every few steps."""
    above = node_lookup.parents_of(source)
    holder = above.get(at)
    if isinstance(holder, ast.If) and at in holder.body and _is_short_period(source, holder):
        return _equally_frequent_statement(source, holder)
    if isinstance(holder, ast.Try) and at in (*holder.finalbody, *holder.body):
        return _equally_frequent_statement(source, holder)
    return at


def _is_in_hook_lambda(source: Source, call: ast.Call) -> bool:
    """Whether it is in ``LambdaCallback(on_train_batch_end=lambda batch, logs: gc.collect())``."""
    above = node_lookup.parents_of(source)
    holder = above.get(call)
    while isinstance(holder, (ast.Tuple, ast.List, ast.BoolOp)):
        holder = above.get(holder)
    given = above.get(holder) if isinstance(holder, ast.Lambda) else None
    return isinstance(given, ast.keyword) and given.arg in keras_names.BATCH_HOOKS


def _is_passed_as_hook(source: Source, function: class_members.Function) -> bool:
    """Whether it is passed to ``LambdaCallback`` for each batch."""
    above = node_lookup.parents_of(source)
    given = (above.get(one) for one in call_arguments.function_references(source, function))
    return any(isinstance(one, ast.keyword) and one.arg in keras_names.BATCH_HOOKS for one in given)


def _is_step_context_manager(source: Source, function: class_members.Function) -> bool:
    """Whether it is a generator with ``contextlib.contextmanager`` that a loop enters around its step."""
    marks = {name_bindings.qualified_name(source, d) for d in function.decorator_list}
    if "contextlib.contextmanager" not in marks:
        return False
    for call in queries.calls_running(source, function):
        item = node_lookup.parents_of(source).get(call)
        block = node_lookup.enclosing_statement(source, call)
        if isinstance(item, ast.withitem) and isinstance(block, ast.With) and _surrounds_step(source, block):
            return True
        mark = block.decorator_list if isinstance(block, FUNCTION_NODES) else []
        if call in mark and isinstance(block, FUNCTION_NODES) and _takes_step_in_loop(source, block):
            return True  # ``@tidy()`` on the step
    return False


def _is_step_wrapper(source: Source, function: class_members.Function) -> bool:
    """Whether it is the function by which a decorator of the file replaces a step that a loop takes."""
    outer = node_lookup.enclosing_function(source, function)
    back = scope_names.returned_values(outer) if outer is not None else []
    if outer is None or not any(isinstance(v, ast.Name) and v.id == function.name for v in back):
        return False
    marked = (f for f in call_index.nodes_of_kind(source, ast.FunctionDef) if isinstance(f, ast.FunctionDef))
    named = (f for f in marked if any(isinstance(d, ast.Name) and d.id == outer.name for d in f.decorator_list))
    return any(_takes_step_in_loop(source, one) for one in named)


def _takes_step_in_loop(source: Source, step: class_members.Function) -> bool:
    """Whether a function takes a step in each call, and a loop calls it."""
    if not call_index.reaches_training_step(source, step.body):
        return False
    return any(any(True for _ in queries.loops_running(source, call)) for call in queries.calls_running(source, step))


def _is_short_period(source: Source, test: ast.If) -> bool:
    """Whether the test is ``if step % n == 0:`` with a small number."""
    modulus = periodic_work.modulus_of_guard(test)
    every = queries.int_at(source, modulus) if modulus is not None else None
    return every is not None and 1 <= every <= MAX_PERIOD_STEPS


def _runs_next_to_step(source: Source, at: ast.stmt) -> bool:
    """Whether a loop that takes a step in another statement runs ``at`` in each iteration, itself or by a call."""
    for loop, inside in queries.loops_running(source, at):
        others = [s for s in loop.body if s is inside or not isinstance(s, (ast.For, ast.While, ast.If))]
        if call_index.reaches_training_step(source, others):
            return True
    return False


def _is_entered_by_loop(source: Source, function: ast.AST) -> bool:
    """Whether each iteration of a loop enters an object of the class around its step."""
    kind = node_lookup.parents_of(source).get(function)
    for block in call_index.nodes_of_kind(source, ast.With):
        if not isinstance(block, ast.With) or not isinstance(kind, ast.ClassDef):
            continue
        mine = any(queries.object_class_at(source, item.context_expr) is kind for item in block.items)
        if mine and _surrounds_step(source, block):
            return True
    return False


def _surrounds_step(source: Source, block: ast.With) -> bool:
    """Whether each iteration of a loop runs the ``with`` block and takes a step in it."""
    return any(True for _ in queries.loops_running(source, block)) and call_index.reaches_training_step(
        source, block.body
    )
