"""Finds the cause host/predict-in-loop in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import ceil, prod

from msgspec.structs import replace

from slowtrain.causes.host.predict_in_loop.fix import CALL_MODEL, PREDICT_ON_BATCH, TRAIN_ON_BATCH
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code, sample_counts, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names, single_rows
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source, cache_recent

MIN_LOOP_CALLS = 8  # of one line. A script may evaluate after each of a few stages.
MAX_LITTLE_ROWS = 32  # the default batch size of Keras. A call with fewer rows has the same fixed cost.
KERAS_PREDICT_ARGUMENTS = frozenset(
    {"verbose", "steps", "callbacks"}
)  # arguments that ``predict`` of other libraries lacks
KERAS_METHODS = frozenset(
    {"train_on_batch", "get_weights", "set_weights", "load_weights", "save_weights", "reset_states"}
)
KERAS_FIT_ARGUMENTS = frozenset(
    {"epochs", "batch_size", "validation_data"}
)  # arguments that ``fit`` of other libraries lacks
MAX_LITTLE_FIT_STEPS = 4  # of one call of fit, whose fixed cost is that of a dozen steps
MODEL_KINDS = ("keras", "object")
MAX_PREDICT_ROWS = 256


def find_spots(source: Source) -> Iterable[Spot]:
    """Calls of ``predict`` for a few rows, or of ``fit`` for one step, in a loop."""
    found = spots.distinct_spots((*small_predicts(source), *small_fits(source), *reached_predicts(source)))
    shown = _lines_that_show(source)
    yield from (replace(one, minor=one.start[0] in shown) for one in found)


def _lines_that_show(source: Source) -> set[int]:
    """The lines of loops that show a picture in each turn: a person looks at it for longer than ``predict`` takes.

    Lines of loops inside do not count.
    """
    found: set[int] = set()
    for call in call_index.index_of(source).calls_of("show"):
        loop = next(iter(scope_names.enclosing_loops(source, call)), None)
        if isinstance(loop, ast.For) and any(isinstance(one, ast.Expr) and one.value is call for one in loop.body):
            found |= _lines_of(loop).difference(
                *map(_lines_of, syntax_tree.nodes_inside(loop.body, ast.For, ast.While))
            )
    return found


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _call_spot(call: ast.Call, says: str, cure: str, changed: Iterable[Edit] = ()) -> Spot:
    return spots.operation_spot(call, says, Prescription("edit", Effect.EQUIVALENT, cure, edits=tuple(changed)))


def small_predicts(source: Source) -> Iterator[Spot]:
    """Find calls of ``predict`` in a loop with few rows, by the text."""
    for call in call_index.index_of(source).calls_of("predict"):
        if not isinstance(call.func, ast.Attribute) or not _is_keras_predict(source, call, call.func.value):
            continue
        rows = sample_counts.given_rows(source, node_lookup.argument_value(call, "x", 0))
        rows = rows or (1 if single_rows.reads_first_row(source, call) else MAX_LITTLE_ROWS + 1)
        if rows <= MAX_LITTLE_ROWS and queries.repeating_loop(source, call, MIN_LOOP_CALLS) is not None:
            changed = tuple(keras_calls.use_predict_on_batch(source, call.lineno))
            says = f"predict() in a loop is given {rows} row{'s' * (rows > 1)} at a time"
            yield _call_spot(call, says, PREDICT_ON_BATCH if changed else CALL_MODEL, changed)


def small_fits(source: Source) -> Iterator[Spot]:
    """Find calls of ``fit`` in a loop for one step, or a few."""
    for call, rows, steps in _small_fit_calls(source):
        changed = keras_calls.use_train_on_batch(source, call.lineno) if steps == 1 else ()
        given = f"{rows} row{'s' * (rows > 1)}" if rows else "one batch"
        taken = f"{steps} steps" if steps > 1 else "one step"
        yield _call_spot(call, f"fit() in a loop is given {given} at a time, {taken}", TRAIN_ON_BATCH, changed)


@cache_recent(1)
def _small_fit_calls(source: Source) -> tuple[tuple[ast.Call, int | None, int], ...]:
    """The calls, each with its rows, if known, and its steps."""
    found: list[tuple[ast.Call, int | None, int]] = []
    for call in call_index.index_of(source).calls_of("fit"):
        data, size = node_lookup.argument_value(call, "x", 0), node_lookup.argument_value(call, "batch_size", 2)
        epochs = node_lookup.argument_value(call, "epochs", 3)
        if (epochs is not None and queries.int_at(source, epochs) != 1) or not isinstance(call.func, ast.Attribute):
            continue
        if queries.repeating_loop(source, call, MIN_LOOP_CALLS) is None or _is_model_rebound(source, call.func):
            continue
        rows = sample_counts.given_rows(source, data) or (1 if single_rows.takes_one_row(source, call) else None)
        batch = sample_counts.DEFAULT_BATCH_SIZE if size is None else queries.int_at(source, size)
        whole = size is not None and data is not None and _is_length_of(size, data)
        steps = 1 if whole else ceil(rows / batch) if rows and batch else MAX_LITTLE_FIT_STEPS + 1
        if steps <= MAX_LITTLE_FIT_STEPS:
            found.append((call, rows, steps))
    return tuple(found)


def _is_length_of(size: ast.expr, data: ast.expr) -> bool:
    """Whether ``size`` is ``len(x)`` or ``x.shape[0]`` of the same ``x``."""
    match size:
        case ast.Call(func=ast.Name(id="len"), args=[of]) | ast.Subscript(value=ast.Attribute(value=of, attr="shape")):
            return ast.dump(of) == ast.dump(data)
    return False


def _is_keras_predict(source: Source, call: ast.Call, owner: ast.expr) -> bool:
    """Whether ``predict`` belongs to a Keras model, by its arguments, other calls of the object, or its origin."""
    if any(k.arg in KERAS_PREDICT_ARGUMENTS for k in call.keywords):
        return True
    if any(_shows_keras_model(other, owner) for other in call_index.index_of(source).calls_of(*KERAS_METHODS, "fit")):
        return True
    made = name_bindings.single_assignment(source, owner) if isinstance(owner, ast.Name) else None
    name = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("keras.") and name.endswith(("Sequential", "Model", "load_model"))


def _shows_keras_model(call: ast.Call, owner: ast.expr) -> bool:
    """Whether ``call`` calls a method of ``owner`` that only Keras models have."""
    if not isinstance(call.func, ast.Attribute) or ast.dump(call.func.value) != ast.dump(owner):
        return False
    return call.func.attr in KERAS_METHODS or any(k.arg in KERAS_FIT_ARGUMENTS for k in call.keywords)


def _is_model_rebound(source: Source, fit: ast.Attribute) -> bool:
    """Whether the loop around ``fit`` rebinds the model in each iteration."""
    name = scope_names.dotted_name(fit.value).partition(".")[0]
    return not name or any(name in scope_names.bound_names(loop) for loop in scope_names.enclosing_loops(source, fit))


def reached_predicts(source: Source) -> Iterator[Spot]:
    """Find calls of ``predict`` with few rows in each of many iterations, by the interpreter's events."""
    if ".predict" not in source.text:
        return
    fits = {call for call, _, _ in _small_fit_calls(source)}
    fitting = {one.number for event in file_events(source) if event.node in fits for one in event.loops}
    for event in file_events(source):
        call, on = event.node, event.on
        if event.name != ".predict" or not isinstance(call, ast.Call) or on is None:
            continue
        loop = step_loops.step_loop_of(source, event)
        if on.kind not in MODEL_KINDS and not (on.kind == "unknown" and _is_beside_keras_step(source, event)):
            continue
        regular = event.regular_loops(graph_code.MIN_BUILDS)
        times = prod(one.turns or 1 for one in regular)
        # As many calls as steps are many, also as calls of fit that take one step each.
        many = times >= graph_code.MIN_UNROLLED_TURNS or loop is not None
        many |= any(one.turns is None and one.number in fitting for one in regular)
        shape = event.given.get("x", 0).shape
        if shape and shape[0] is not None:
            few = shape[0] <= MAX_PREDICT_ROWS
        else:  # a batch size above the default of Keras means more rows
            batch = queries.int_at(source, node_lookup.argument_value(call, "batch_size", 1))
            few = (batch is None or batch <= MAX_PREDICT_ROWS) and not step_loops.is_between_epochs(source, event)
        if many and few:
            says = "predict() is called for few rows in each iteration of a loop, and each call has a fixed cost"
            yield _call_spot(call, says, CALL_MODEL)


def _is_beside_keras_step(source: Source, event: Event) -> bool:
    """Whether each iteration calls ``train_on_batch`` too, so that ``predict`` belongs to a Keras model as well."""
    found = step_loops.loop_and_period(source, event)
    steps = (one for one in step_loops.step_events(source) if one.name == ".train_on_batch" and one.loops)
    return found is not None and found[1] == 1 and any(one.loops[-1] is found[0] for one in steps)
