"""Ops that a loop starts from Python around a compiled step: over all weights after it, on each batch before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN, Value
from slowtrain.script.interpreter.domain.call_events import Event, Loop
from slowtrain.script.interpreter.engine import interpreter, step_loops
from slowtrain.script.lint_rules import keras_names
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, project_files
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

ASSIGN_METHODS = ("assign", "assign_add", "assign_sub")
MAX_PERIOD_STEPS = 2  # at a longer period it costs a small part of a step
MIN_IMAGE_OPS = 3  # fewer start in a tenth of a millisecond
DETERMINISTIC_LAYERS = ("Rescaling", "Resizing", "CenterCrop", "Input", "InputLayer")
ITERATION_FUNCTIONS = frozenset({"zip", "enumerate", "list", "tuple", "reversed", "range", "len", "zip_longest"})


def weight_loops(source: Source) -> Iterator[ast.expr]:
    """``for t, s in zip(teacher.weights, student.weights): t.assign(...)`` in each iteration of compiled steps.

    Each variable is read, computed with and assigned: about four ops, each started from Python. Copies count too.
    A loop that takes its gradient eagerly is left out, because the gradient costs more.
    """
    if source.words.isdisjoint(ASSIGN_METHODS) or not any(
        name in source.words for name in keras_names.VARIABLE_ATTRIBUTES
    ):
        return
    every = interpreter.file_events(source)
    seen: set[ast.AST] = set()
    for event in every:
        if event.name.removeprefix(".") not in ASSIGN_METHODS or event.graph or event.producer:
            continue
        loop = step_loops.step_loop_of(source, event)
        inner = event.loops[event.loops.index(loop) + 1 :] if loop is not None else ()
        around = step_loops.loop_and_period(source, event)
        if loop is None or around is None or around[1] > MAX_PERIOD_STEPS or _is_copy_into_model(event):
            continue
        over = next((one for one in inner if _iterates_weights(source, one)), None)
        if over is None or over.node in seen or any(one.number in event.rare for one in inner):
            continue
        if any(e.name == "tensorflow.GradientTape" and loop in e.loops and not e.graph for e in every):
            continue
        seen.add(over.node)
        yield over.node.iter  # type: ignore[attr-defined]


def augmenting_calls(source: Source) -> Iterator[ast.Call]:
    """Calls that augment each batch op by op before the step, with TensorFlow's ops or random layers; one per loop."""
    own = "image" in source.words or not source.words.isdisjoint(keras_names.RANDOM_LAYERS)
    if not own and not project_files.may_import_project_files(source):
        return
    ops: dict[tuple[int, ast.Call], set[ast.AST]] = {}
    layers: list[tuple[int, ast.Call]] = []
    for event in interpreter.project_events(source):
        loop = step_loops.step_loop_of(source, event)
        place = _call_in_loop(source, event, loop) if loop is not None else None
        if loop is None or place is None or event.regular_loops()[-1:] != (loop,):
            continue
        if event.name.startswith("tensorflow.image."):
            ops.setdefault((loop.number, place), set()).add(event.node)
        elif event.name == "__call__" and event.on is not None and _is_random_augmentation(source, event.on):
            layers.append((loop.number, place))
    seen: set[int] = set()
    for number, place in (*layers, *(key for key, nodes in ops.items() if len(nodes) >= MIN_IMAGE_OPS)):
        if number not in seen:
            seen.add(number)
            yield place


def _call_in_loop(source: Source, event: Event, loop: Loop) -> ast.Call | None:
    """The call in a loop of this file that leads to the event."""
    above = node_lookup.parents_of(source)
    way = zip((*event.path, event.node), (*event.files, event.source), strict=True)
    for node in (one for one, file in way if file is source and loop.source is source):
        at = above.get(node)
        while at is not None and at is not loop.node:
            at = above.get(at)
        if at is loop.node and isinstance(node, ast.Call):
            return node
    return None


def _is_random_augmentation(source: Source, on: Value) -> bool:
    """Whether it is a random layer, a model of random layers, or a model of functions with TensorFlow's image ops."""
    made = on.node
    names = (
        [node_lookup.called_name(n) for n in syntax_tree.walk(made) if isinstance(n, ast.Call)]
        if made is not None
        else []
    )
    names = [n for n in names if n[:1].isupper() and n != "Sequential"]
    if on.kind != "keras" or not names or not isinstance(made, ast.Call):
        return False
    if any(n in keras_names.RANDOM_LAYERS for n in names):
        return all(n in (*keras_names.RANDOM_LAYERS, *DETERMINISTIC_LAYERS) for n in names)
    own = {kind.name for kind in class_members.class_definitions(source)}
    several = sum(name_bindings.qualified_name(source, n.func).startswith("tensorflow.image.")
                  for n in call_index.nodes_of_class(source, ast.Call))  # fmt: skip
    return "Lambda" in names and set(names) <= {"Lambda", *own} and several >= MIN_IMAGE_OPS


def _is_copy_into_model(event: Event) -> bool:
    """Whether the assigned value is an array or a number, which is copied into the model without another op."""
    given = event.given.get("value", 0)
    return given.kind == "array" or given.known is not NOT_KNOWN


def _iterates_weights(source: Source, loop: Loop) -> bool:
    """Whether a loop iterates over the variables of a model, directly, by a name or by their indexes."""
    over = loop.node.iter if isinstance(loop.node, (ast.For, ast.comprehension)) else None
    return over is not None and any(_is_model_variables(source, one) for one in _iterated_parts(over))


def _iterated_parts(over: ast.expr) -> Iterator[ast.expr]:
    """The iterables inside ``zip``, ``enumerate`` and similar calls."""
    if isinstance(over, ast.Call) and node_lookup.called_name(over) in ITERATION_FUNCTIONS:
        for one in over.args:
            yield from _iterated_parts(one)
    else:
        yield over


def _is_model_variables(source: Source, over: ast.expr) -> bool:
    """Whether it is ``model.weights``, a name for it, or a sum as in ``a.weights + b.weights``."""
    for node in syntax_tree.walk(over):
        if isinstance(node, ast.Attribute) and node.attr in keras_names.VARIABLE_ATTRIBUTES:
            return True
    value = interpreter.value_at(source, over)
    return value.kind == "method" and value.name in keras_names.VARIABLE_ATTRIBUTES
