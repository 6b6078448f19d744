"""Finds the cause host/predict-in-loop in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from math import ceil, prod

from slowtrain.causes.host.predict_in_loop import CALL_MODEL, PREDICT_ON_BATCH, TRAIN_ON_BATCH
from slowtrain.model import Edit, Effect, Prescription, Spot
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.interpreter.engine import queries, step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import graph_code, sample_counts, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup, scope_names
from slowtrain.script.text.source_file import Source

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
MAX_PREDICT_ROWS = 256


def find_spots(source: Source) -> Iterable[Spot]:
    """Calls of ``predict`` for a few rows, or of ``fit`` for one step, in a loop."""
    known = list(little_calls(source))
    seen = {call for call, _, _ in known}
    for call in dict.fromkeys(one for one in small_predict_calls(source) if one not in seen):
        says = "predict() is called for few rows in each iteration of a loop, and each call has a fixed cost"
        yield spots.operation_spot(call, says, Prescription("edit", Effect.EQUIVALENT, CALL_MODEL))
    for call, says, changed in known:
        words = PREDICT_ON_BATCH if changed else CALL_MODEL
        words = TRAIN_ON_BATCH if node_lookup.called_name(call) == "fit" else words
        cure = Prescription("edit", Effect.EQUIVALENT, words, edits=changed)
        yield spots.operation_spot(call, says, cure)


def little_calls(source: Source) -> Iterator[tuple[ast.Call, str, tuple[Edit, ...]]]:
    """Find calls in a loop of ``predict`` with few rows or ``fit`` for one step, with a description and edits."""
    for call in call_index.index_of(source).called("predict"):
        if not isinstance(call.func, ast.Attribute) or not _is_in_loop(source, call):
            continue
        found = sample_counts.given_rows(source, node_lookup.argument_value(call, "x", 0)) or (
            1 if _reads_first_row(source, call) else None
        )
        if found is None or found > MAX_LITTLE_ROWS or not _is_keras_predict(source, call):
            continue
        says = f"predict() in a loop is given {found} row{'s' * (found > 1)} at a time"
        yield call, says, tuple(keras_calls.use_predict_on_batch(source, call.lineno))
    for call in call_index.index_of(source).called("fit"):
        if not _is_in_loop(source, call):
            continue
        found, size = (
            sample_counts.given_rows(source, node_lookup.argument_value(call, "x", 0)),
            node_lookup.argument_value(call, "batch_size", 2),
        )
        batch = 32 if size is None else queries.int_at(source, size)
        epochs = node_lookup.argument_value(call, "epochs", 3)
        once = epochs is None or queries.int_at(source, epochs) == 1
        whole = size is not None and _is_length_of(size, node_lookup.argument_value(call, "x", 0))
        steps = 1 if whole else ceil(found / batch) if found and batch else None
        if steps is None or steps > MAX_LITTLE_FIT_STEPS or not once or not isinstance(call.func, ast.Attribute):
            continue
        if not _is_model_rebound(source, call):
            changed = tuple(keras_calls.use_train_on_batch(source, call.lineno)) if steps == 1 else ()
            rows = f"{found} rows" if found else "one batch"
            taken = f"{steps} steps" if steps > 1 else "one step"
            yield call, f"fit() in a loop is given {rows} at a time, {taken}", changed


def _reads_first_row(source: Source, call: ast.Call) -> bool:
    """Whether only row 0 of the result is read, ``predict(state)[0]``, so that the call gets one row."""
    read = node_lookup.parents_of(source).get(call)
    if not isinstance(read, ast.Subscript) or read.value is not call:
        return False
    row = read.slice.elts[0] if isinstance(read.slice, ast.Tuple) and read.slice.elts else read.slice
    return isinstance(row, ast.Constant) and row.value == 0 and _has_one_output(source)


def _has_one_output(source: Source) -> bool:
    """Whether the models of the file have one output each. With several, ``predict(x)[0]`` is the first output."""
    built = call_index.index_of(source).called("Model")
    outputs = (node_lookup.argument_value(call, "outputs", 1) for call in built)
    if any(isinstance(one, ast.List | ast.Tuple) for one in outputs):
        return False
    return bool(built or call_index.index_of(source).called("Sequential"))


def _is_length_of(size: ast.expr, data: ast.expr | None) -> bool:
    """Whether ``size`` is ``len(x)`` or ``x.shape[0]`` of the same ``x``."""
    if isinstance(size, ast.Call) and node_lookup.called_name(size) == "len" and len(size.args) == 1:
        return data is not None and ast.dump(size.args[0]) == ast.dump(data)
    rows = isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute) and size.value.attr == "shape"
    return rows and data is not None and ast.dump(size.value.value) == ast.dump(data)  # type: ignore[attr-defined]


def _is_in_loop(source: Source, call: ast.Call) -> bool:
    """Whether a loop contains the call, or a call of its function."""
    return queries.repeating_loop(source, call, MIN_LOOP_CALLS) is not None


def _is_keras_predict(source: Source, call: ast.Call) -> bool:
    """Whether ``predict`` belongs to a Keras model, by its arguments, other calls of the object, or its origin."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if any(k.arg in KERAS_PREDICT_ARGUMENTS for k in call.keywords):
        return True
    owner = call.func.value
    if any(_shows_keras_model(other, owner) for other in call_index.index_of(source).called(*KERAS_METHODS, "fit")):
        return True
    made = name_bindings.single_assignment(source, owner) if isinstance(owner, ast.Name) else None
    name = name_bindings.qualified_name(source, made.func) if isinstance(made, ast.Call) else ""
    return name.startswith("keras.") and name.endswith(("Sequential", "Model", "load_model"))


def _shows_keras_model(call: ast.Call, owner: ast.expr) -> bool:
    """Whether ``call`` calls a method of ``owner`` that only Keras models have."""
    if not isinstance(call.func, ast.Attribute) or ast.dump(call.func.value) != ast.dump(owner):
        return False
    return call.func.attr in KERAS_METHODS or any(k.arg in KERAS_FIT_ARGUMENTS for k in call.keywords)


def _is_model_rebound(source: Source, call: ast.Call) -> bool:
    """Whether the loop around ``fit`` rebinds the model in each iteration."""
    assert isinstance(call.func, ast.Attribute)
    name = scope_names.dotted_name(call.func.value).partition(".")[0]
    return not name or any(name in scope_names.bound_names(loop) for loop in scope_names.enclosing_loops(source, call))


def small_predict_calls(source: Source) -> Iterator[ast.Call]:
    """Find calls of ``predict`` with few rows in each of many iterations."""
    for event in file_events(source) if ".predict" in source.text else ():
        if event.name != ".predict" or not isinstance(event.node, ast.Call) or event.on is None:
            continue
        rows = event.given.get("x", 0).shape
        many = (
            prod(one.turns or 1 for one in event.regular_loops(graph_code.MIN_BUILDS)) >= graph_code.MIN_UNROLLED_TURNS
        )
        many |= step_loops.step_loop_of(source, event) is not None  # as many calls as steps
        if rows and rows[0] is not None:
            few = rows[0] <= MAX_PREDICT_ROWS
        else:  # a batch size above the default of Keras means more rows
            batch = queries.int_at(source, node_lookup.argument_value(event.node, "batch_size", 1))
            few = (batch is None or batch <= MAX_PREDICT_ROWS) and not step_loops.is_between_epochs(source, event)
        if many and event.on.kind in ("keras", "object") and few:
            yield event.node
