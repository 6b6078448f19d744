"""The garbage collector called for each step, in the step's loop or in what the loop calls and enters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import (
    call_index,
    class_members,
    higher_order_calls,
    name_bindings,
    node_lookup,
    scope_names,
)
from slowtrain.script.text.source_file import FUNCTION_NODES, Source
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.spots.host import callbacks, fits

OFTEN = 10  # steps between two collections: one takes as long as several steps of most models
ENTERED = ("__enter__", "__exit__")


def collected(source: Source) -> Iterator[ast.Call]:
    """``gc.collect()`` in every turn of a loop that takes a step, or in a hook of every batch."""
    for call in call_index.index_of(source).called("collect"):
        statement = node_lookup.enclosing_statement(source, call)
        if name_bindings.qualified_name(source, call.func) != "gc.collect" or statement is None:
            continue
        if _in_hook(source, call):
            yield call
        elif isinstance(statement, ast.Expr) and statement.value is not call:
            continue
        elif isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign)) and _every_step(source, statement):
            yield call


def _every_step(source: Source, statement: ast.stmt) -> bool:
    function = node_lookup.enclosing_function(source, statement)
    at = _outer(source, statement)
    if function is None:
        return _beside(source, at)
    if function.name in ENTERED:
        return node_lookup.parents_of(source).get(at) is function and _entered(source, function)
    if function.name in callbacks.HOOKS:
        return at in function.body
    if at in function.body and (_managing(source, function) or _wrapping(source, function)):
        return True
    return _beside(source, at) or (at in function.body and _as_hook(source, function))


def _outer(source: Source, at: ast.stmt) -> ast.stmt:
    """The statement that runs as often: the ``try`` that it ends, the test that is true every few steps."""
    above = node_lookup.parents_of(source)
    holder = above.get(at)
    if isinstance(holder, ast.If) and at in holder.body and _now_and_then(source, holder):
        return _outer(source, holder)
    if isinstance(holder, ast.Try) and at in (*holder.finalbody, *holder.body):
        return _outer(source, holder)
    return at


def _in_hook(source: Source, call: ast.Call) -> bool:
    """``LambdaCallback(on_train_batch_end=lambda batch, logs: gc.collect())``, and ``=gc.collect`` in such a lambda."""
    above = node_lookup.parents_of(source)
    holder = above.get(call)
    while isinstance(holder, (ast.Tuple, ast.List, ast.BoolOp)):
        holder = above.get(holder)
    given = above.get(holder) if isinstance(holder, ast.Lambda) else None
    return isinstance(given, ast.keyword) and given.arg in callbacks.HOOKS


def _as_hook(source: Source, function: class_members.Function) -> bool:
    """Whether it is given to ``LambdaCallback`` for each batch."""
    above = node_lookup.parents_of(source)
    given = (above.get(one) for one in higher_order_calls.function_references(source, function))
    return any(isinstance(one, ast.keyword) and one.arg in callbacks.HOOKS for one in given)


def _managing(source: Source, function: class_members.Function) -> bool:
    """Whether it is a generator behind ``contextlib.contextmanager`` that a loop enters around its step."""
    marks = {name_bindings.qualified_name(source, d) for d in function.decorator_list}
    if "contextlib.contextmanager" not in marks:
        return False
    for call in queries.calls_running(source, function):
        item = node_lookup.parents_of(source).get(call)
        block = node_lookup.enclosing_statement(source, call)
        if isinstance(item, ast.withitem) and isinstance(block, ast.With) and _around_step(source, block):
            return True
        mark = block.decorator_list if isinstance(block, FUNCTION_NODES) else []
        if call in mark and isinstance(block, FUNCTION_NODES) and _step_in_loop(source, block):
            return True  # ``@tidy()`` on the step
    return False


def _wrapping(source: Source, function: class_members.Function) -> bool:
    """Whether it is what a decorator of the file puts in the place of a step that a loop takes."""
    outer = node_lookup.enclosing_function(source, function)
    back = scope_names.returned_values(outer) if outer is not None else []
    if outer is None or not any(isinstance(v, ast.Name) and v.id == function.name for v in back):
        return False
    marked = (f for f in call_index.nodes_of_kind(source, ast.FunctionDef) if isinstance(f, ast.FunctionDef))
    named = (f for f in marked if any(isinstance(d, ast.Name) and d.id == outer.name for d in f.decorator_list))
    return any(_step_in_loop(source, one) for one in named)


def _step_in_loop(source: Source, step: class_members.Function) -> bool:
    """Whether a function takes a step each time that it is called, which a loop does."""
    if not fits.takes_step(source, step.body):
        return False
    return any(any(True for _ in queries.loops_running(source, call)) for call in queries.calls_running(source, step))


def _now_and_then(source: Source, test: ast.If) -> bool:
    """``if step % 2 == 0:`` of a small number."""
    modulus = kerascalls.divided_by(test)
    every = queries.int_at(source, modulus) if modulus is not None else None
    return every is not None and 1 <= every <= OFTEN


def _beside(source: Source, at: ast.stmt) -> bool:
    """Whether a loop that takes a step by another statement runs ``at`` in each turn, itself or by a call."""
    for loop, inside in queries.loops_running(source, at):
        others = [s for s in loop.body if s is inside or not isinstance(s, (ast.For, ast.While, ast.If))]
        if fits.takes_step(source, others):
            return True
    return False


def _entered(source: Source, function: ast.AST) -> bool:
    """Whether each turn of a loop enters an object of the class around its step."""
    kind = node_lookup.parents_of(source).get(function)
    for block in call_index.nodes_of_kind(source, ast.With):
        if not isinstance(block, ast.With) or not isinstance(kind, ast.ClassDef):
            continue
        mine = any(queries.object_class_at(source, item.context_expr) is kind for item in block.items)
        if mine and _around_step(source, block):
            return True
    return False


def _around_step(source: Source, block: ast.With) -> bool:
    """Whether each turn of a loop runs a ``with`` in which it takes a step."""
    return any(True for _ in queries.loops_running(source, block)) and fits.takes_step(source, block.body)
