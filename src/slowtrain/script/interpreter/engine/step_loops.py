"""The loops of a script that take training steps, by text and by interpretation, and what each iteration does."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, queries
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, cache_recent

MIN_LOOP_TURNS = 5  # fewer iterations do not count as a loop of steps
# Updates of variables with explicit gradients, without a tape.
SCATTER_UPDATES = frozenset({".scatter_sub", ".scatter_add", ".scatter_nd_sub", ".scatter_nd_add"})
UPDATE_CALLS = frozenset({".apply_gradients", ".minimize", ".train_on_batch"}) | SCATTER_UPDATES
ASSIGN_CALLS = frozenset(
    {".apply", ".assign", ".assign_sub", ".assign_add"}
)  # updates, if a tape is in the same function


@cache_recent(4)
def step_events(source: Source) -> tuple[Event, ...]:
    """The calls that update a model's weights, and later calls of the tf.functions around them, in all files."""
    every = interpreter.project_events(source)
    taped = {node_lookup.enclosing_function(e.source, e.node) for e in every if e.name == "tensorflow.GradientTape"}
    moving = [
        e
        for e in every
        if e.name in UPDATE_CALLS
        or (e.name in ASSIGN_CALLS and taped and node_lookup.enclosing_function(e.source, e.node) in taped)
    ]
    graphs = [e for e in moving if e.graph]
    around = {node_lookup.enclosing_function(e.source, e.node) for e in graphs} - {None}
    around |= {
        node_lookup.enclosing_function(file, n) for e in graphs for n, file in zip(e.path, e.files, strict=True)
    } - {None}
    again = [e for e in every if e.on is not None and e.on.kind == "graph" and e.on.of and e.on.of.node in around]
    return (*moving, *again)


@cache_recent(4)
def loops_by_number(source: Source) -> dict[int, Loop]:
    """The innermost loops that take a step in each iteration, by number."""
    return {
        e.loops[-1].number: e.loops[-1] for e in step_events(source) if e.loops and e.loops[-1].number not in e.rare
    }


@cache_recent(4)
def handwritten_loop_nodes(source: Source) -> frozenset[ast.AST]:
    """The nodes of those loops that the script contains, if they have more than a few iterations of one step each."""
    # A graph that contains a loop of steps is an epoch.
    epochs = {node_lookup.enclosing_function(e.loops[-1].source or source, e.loops[-1].node)
              for e in step_events(source) if e.graph and e.loops}  # fmt: skip
    single = [e for e in step_events(source) if e.on is None or e.on.of is None or e.on.of.node not in epochs]
    found = {e.loops[-1] for e in single if e.loops and e.loops[-1].number not in e.rare}
    mine = (one for one in found if isinstance(one.node, (ast.For, ast.While, ast.comprehension)))
    return frozenset(one.node for one in mine if one.turns is None or one.turns >= MIN_LOOP_TURNS)


def is_in_step_loop(source: Source, event: Event) -> bool:
    """Whether a loop that takes a step in each iteration makes ``event``, also inside the step."""
    return any(loop.number in loops_by_number(source) for loop in event.loops)


def step_loop_of(source: Source, event: Event) -> Loop | None:
    """The innermost of the script's step loops that make ``event`` in each iteration, outside of any graph."""
    if event.graph or event.producer:
        return None
    return next(
        (one for one in reversed(event.regular_loops(MIN_LOOP_TURNS)) if one.node in handwritten_loop_nodes(source)),
        None,
    )


def per_step_loop(source: Source, event: Event) -> Loop | None:
    """The loop that takes a step and makes ``event`` in each iteration, or that runs a callback at each batch.

    If ``event`` is the begin of a loop, a loop around that one.
    """
    if event.graph or event.producer:
        return None
    known = loops_by_number(source)
    for at in range(len(event.loops) - 1 - (event.begun is not None), -1, -1):
        one = event.loops[at]
        if one.number in known or _is_batch_loop(event, one):
            return None if one.number in event.rare else one
    return None


def loop_and_period(source: Source, event: Event) -> tuple[Loop, int] | None:
    """The step loop in which ``event`` happens, and its period in iterations, by ``step % n == 0``."""
    if event.graph or event.producer:
        return None
    known = loops_by_number(source)
    inside = [one for one in event.loops if one.number in known or _is_batch_loop(event, one)]
    if not inside:
        return None
    turns = 1
    files = (event.source, *reversed(event.files))
    for node, file in zip((event.node, *reversed(event.path)), files, strict=True):
        at, above = node_lookup.parents_of(file).get(node), node_lookup.parents_of(file)
        while at is not None and at is not inside[-1].node and not isinstance(at, (*FUNCTION_NODES, ast.Lambda)):
            if isinstance(at, (ast.If, ast.IfExp)):
                found = _condition_period(source, at.test)
                if found is None:
                    return None
                turns *= found
            at = above.get(at)
        if at is inside[-1].node:
            break
    return inside[-1], turns


def is_between_epochs(source: Source, event: Event) -> bool:
    """Whether each iteration of the loop around ``event`` trains for longer than a step: an epoch, a fold."""
    if not event.loops:
        return False
    inner = event.loops[-1]
    if isinstance(inner.node, ast.Call):
        return not _is_batch_loop(event, inner)
    # An agent calls fit for a few rows after each move, with one epoch.
    return any(inner in fit.loops for fit in _long_fits(source)) or any(
        inner in e.loops[:-1] for e in step_events(source)
    )


def fits_several_epochs(source: Source) -> bool:
    """Whether some ``fit`` trains for more than one epoch, by its text."""
    return any(True for _ in _long_fits(source))


def _long_fits(source: Source) -> Iterator[Event]:
    seen = interpreter.project_events(source)
    return (e for e in seen if e.name == ".fit" and _several_epochs(e))


def _several_epochs(fit: Event) -> bool:
    epochs = fit.given.get("epochs", 3)
    passed = "epochs" in fit.given.keywords or len(fit.given.args) > 3 or _unpacks_arguments(fit.node)
    return passed and epochs.known not in (None, 1)


def _unpacks_arguments(node: ast.expr) -> bool:
    """Whether it is ``fit(*given, **options)``."""
    return isinstance(node, ast.Call) and (
        any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args)
    )


def _is_batch_loop(event: Event, loop: Loop) -> bool:
    """Whether a loop stands for the batches of ``fit``."""
    place = event.loops.index(loop)
    return place > 0 and isinstance(loop.node, ast.Call) and event.loops[place - 1].node is loop.node


def _condition_period(source: Source, test: ast.expr) -> int | None:
    """The period in iterations of a condition; 1 for a warm-up, None if unknown."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        found = [_condition_period(source, one) for one in test.values]
        known = [n for n in found if n is not None]
        return max(known) if len(known) == len(found) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    if isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        return 1
    if isinstance(test.ops[0], ast.Eq) and isinstance(test.left, ast.BinOp) and isinstance(test.left.op, ast.Mod):
        every = interpreter.value_at(source, test.left.right).known
        return every if isinstance(every, int) and every > 0 else None
    return None


def steps_through_data(source: Source, loop: Loop) -> bool:
    """Whether each iteration takes its step on another part of the data, rather than on all of it."""
    for event in step_events(source):
        if not event.loops or event.loops[-1].number != loop.number:
            continue
        called = event.name == ".train_on_batch" or (event.on is not None and event.on.kind == "graph")
        if (called and loop.number in event.given.varying_inside) or (
            not called and not isinstance(loop.node, ast.Call)
        ):
            return not called or loop.number in event.given.varying_inside
    return isinstance(loop.node, ast.Call)


BATCH_CALLS = ("train_on_batch",)


class StepLoop(Struct, frozen=True):
    """``loop`` takes a step in every iteration by ``call``; ``results``: the names that receive the call's result."""

    loop: ast.For | ast.While
    call: ast.Call
    results: frozenset[str]
    graph: bool  # the step is a function of this file with a gradient tape, not Keras's own


@cache_recent(4)
def step_loops_of(source: Source) -> tuple[StepLoop, ...]:
    """The innermost loop around each call of a training step, in functions that are no graphs themselves."""
    found: dict[int, StepLoop] = {}
    functions = _step_functions(source)
    for call in call_index.index_of(source).calls_of(*BATCH_CALLS, *functions):
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
    for tape in call_index.index_of(source).calls_of("GradientTape"):
        function = node_lookup.enclosing_function(source, tape)
        if function is not None and not scope_names.enclosing_loops(source, tape):
            found[function.name] = None
    for call in call_index.index_of(source).calls_of("function"):  # step = tf.function(train_step)
        statement = node_lookup.enclosing_statement(source, call)
        argument = call.args[0] if call.args else None
        name = argument.attr if isinstance(argument, ast.Attribute) else getattr(argument, "id", "")
        if name in found and isinstance(statement, ast.Assign):
            attributes = {t.attr for t in statement.targets if isinstance(t, ast.Attribute)}
            found |= dict.fromkeys(sorted(scope_names.bound_names(statement) | attributes))
    return tuple(found)


def _result_names(source: Source, call: ast.Call) -> frozenset[str]:
    statement = node_lookup.enclosing_statement(source, call)
    if isinstance(statement, ast.Assign) and statement.value is call:
        return frozenset(n for t in statement.targets for n in scope_names.bound_names(t))
    return frozenset()


def functions_per_turn(source: Source, steps: StepLoop) -> Iterator[tuple[ast.Call, ast.FunctionDef]]:
    """Calls of this file's functions in every iteration, in inner loops too, without the step's own."""
    todo = list(statements_per_turn(steps.loop))
    while todo:
        one = todo.pop(0)
        if isinstance(one, (ast.For, ast.While)):
            todo = [*statements_per_turn(one), *todo]
            continue
        for call in (n for n in syntax_tree.walk(one) if isinstance(n, ast.Call)):
            function = (
                queries.called_function(source, call)
                if node_lookup.called_name(call) != node_lookup.called_name(steps.call)
                else None
            )
            if isinstance(function, ast.FunctionDef) and not function.decorator_list:
                yield call, function


def statements_per_turn(loop: ast.For | ast.While | ast.FunctionDef) -> Iterator[ast.stmt]:
    """The statements that run in every iteration; without branches and inner functions, loops as a whole.

    None after ``if step % 50: return``.
    """
    todo = list(loop.body)
    while todo:
        one = todo.pop(0)
        match one:
            case ast.If(test=test, body=[*_, ast.Return() | ast.Continue()]) if _tests_counter(test):
                return
            case ast.Try(body=body) | ast.With(body=body) | ast.AsyncWith(body=body):
                todo = [*body, *todo]
            case ast.If() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case _:
                yield one


def _tests_counter(test: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in syntax_tree.walk(test))


def has_outer_loop(source: Source, steps: StepLoop) -> bool:
    """Whether another loop in the same function is around the loop, so that its iterations are steps and not epochs."""
    return len(scope_names.enclosing_loops(source, steps.loop)) > 0
