"""Moves the random work of a map to where whole batches are: the front of the Keras model, or the training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slowtrain.causes.input.host_augmentation import model_front
from slowtrain.causes.input.host_augmentation.augmented_steps import StepAugmentation
from slowtrain.causes.input.host_augmentation.mapped_augmentation import (
    FLIP_LAYERS,
    AugmentedMap,
    augmented_map,
    image_op,
    is_layer_call,
)
from slowtrain.model import Edit
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.domain.call_events import Event, Stage
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.interpreter.engine.interpreter import project_events
from slowtrain.script.navigation import class_members, node_lookup, scope_names
from slowtrain.script.pipelines import dataset_chains, interpreted_datasets
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# Between the map and the model. ``padded_batch`` changes the size of images, ``cache`` keeps what was drawn.
KEEPING_STAGES = frozenset({"batch", "shuffle", "prefetch", "repeat", "take", "skip", "with_options"})
TRANSPARENT_CALLS = frozenset({"enumerate", "len"})
STEP_METHOD = "train_step"


@dataclass(frozen=True)
class Consumer:
    """What takes the batches: ``fit`` of a model, or a loop that takes a step with each.

    ``line``: the line of the module that runs it.
    """

    stages: tuple[Stage, ...]
    call: ast.AST
    line: int
    model: Value | None = None
    loop: ast.For | None = None


def move_augmentation(source: Source, line: int, function_line: int | None = None) -> list[Edit]:
    """Move the random work of the map at ``line`` into the model or the step that takes its batches.

    Empty unless each image still gets its own draw, nothing else than the training saw the augmented images, and
    evaluation stays without augmentation.
    """
    maps = dataset_chains.map_calls(source, line, function_line)
    operation = maps[0] if len(maps) == 1 else None
    consumers = _consumers_of(source, operation) if operation is not None else []
    if operation is None or not consumers or dataset_edits.has_starred_arguments(operation):
        return []
    before = [one.stages[: _place_among(one.stages, operation)] for one in consumers]
    batched = all(interpreted_datasets.gives_batches(stages) is True for stages in before)
    found = augmented_map(source, operation, batched=batched)
    moved = _edits_at_consumers(source, found, consumers) if found is not None else []
    return [*found.edits, *moved] if found is not None and moved else []


def _consumers_of(source: Source, operation: ast.Call) -> list[Consumer]:
    """What takes elements of the map, if all of it trains and gets the images as the map gives them."""
    found: list[Consumer] = []
    for one in _takers(source, operation):
        if one is None or not _are_kept(source, one.stages[_place_among(one.stages, operation) + 1 :]):
            return []
        found.append(one)
    return found


def _takers(source: Source, operation: ast.Call) -> Iterator[Consumer | None]:
    """What takes elements of the map; None for everything that does not train."""
    for event in project_events(source):
        given = [one for one in event.given.every if _passes(one, operation)]
        on = event.on if event.on is not None and _passes(event.on, operation) else None
        line = event.path[0].lineno if event.path else event.node.lineno
        if on is not None and event.name == "taken":
            loop = node_lookup.enclosing_node(event.source, event.node, ast.For)
            trains = event.source is source and loop in step_loops.handwritten_loop_nodes(source)
            yield Consumer(on.stages, event.node, line, loop=loop) if isinstance(loop, ast.For) and trains else None
        elif on is not None and event.name.removeprefix(".") not in dataset_chains.DATASET_OPERATIONS:
            yield None
        elif given and event.name == ".fit" and given == [event.given.get("x", 0)]:
            own = event.source is source
            yield Consumer(given[0].stages, event.node, line, model=event.on) if own else None
        elif given and event.name not in TRANSPARENT_CALLS and not _runs_own_code(event):
            yield None


def _passes(value: Value, operation: ast.Call) -> bool:
    return value.kind == "dataset" and any(stage.given.node is operation for stage in value.stages)


def _runs_own_code(event: Event) -> bool:
    """Whether the call runs code of the script, whose calls are events too."""
    return event.on is not None and event.on.kind in ("function", "class", "object") and bool(event.name)


def _place_among(stages: Sequence[Stage], operation: ast.Call) -> int:
    return next(n for n, stage in enumerate(stages) if stage.given.node is operation)


def _are_kept(source: Source, stages: Sequence[Stage]) -> bool:
    """Whether later stages hand on the images as they are."""
    return all(
        one.name in KEEPING_STAGES or (one.name == "map" and _keeps_first_part(source, one.given.node))
        for one in stages
    )


def _keeps_first_part(source: Source, call: ast.AST) -> bool:
    """Whether a map returns its first parameter as it is, and reads it nowhere else: ``lambda x, y: (x, f(y))``."""
    function: ast.AST | None = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if isinstance(function, ast.Name):
        function = node_lookup.function_named(source, function.id, function)
    result = function.body if isinstance(function, ast.Lambda) else None
    result = scope_names.single_return(function) if isinstance(function, ast.FunctionDef) else result
    if function is None or not isinstance(result, ast.Tuple) or not result.elts:
        return False
    names = scope_names.parameter_names(function)
    uses = [n for n in syntax_tree.walk(function) if names and scope_names.is_name(n, names[0])]
    return uses == [result.elts[0]]


def _edits_at_consumers(source: Source, found: AugmentedMap, consumers: Sequence[Consumer]) -> list[Edit]:
    loops = {one.loop for one in consumers if one.loop is not None}
    models = {one.model.node: one.model for one in consumers if one.model is not None}
    step = StepAugmentation(source, found, min(one.line for one in consumers))
    if len(loops) + len(models) != 1 or "distribute" in source.words:
        return []  # a strategy's model has no layers from outside of its scope
    if loops:
        return step.edits_in_loop(loops.pop())
    (model,) = models.values()
    fits = {e.node for e in project_events(source) if e.name == ".fit" and e.on is not None and e.on.node is model.node}
    if fits != {one.call for one in consumers}:
        return []  # it trains on other images too
    if model.kind == "object":
        return _edits_in_train_step(step, model)
    return _edits_in_model(source, found, model) if not found.whole else []


def _edits_in_train_step(step: StepAugmentation, model: Value) -> list[Edit]:
    """Insert the calls in the ``train_step`` of a subclass of ``keras.Model``, which ``fit`` runs."""
    kind = model.of.node if model.of is not None else None
    function = class_members.own_method(kind, STEP_METHOD) if isinstance(kind, ast.ClassDef) else None
    names = scope_names.parameter_names(function) if function is not None else []
    if not isinstance(function, ast.FunctionDef) or len(names) != 2:
        return []
    return step.edits_in_function(function, names[1], unpacked=True)


def _edits_in_model(source: Source, found: AugmentedMap, model: Value) -> list[Edit]:
    """Insert the layers at the front of a Keras model, which runs them in training only."""
    made = model.node
    begun = next((e for e in project_events(source) if e.node is made and e.source is source), None)
    if begun is None or not isinstance(made, ast.Call) or not model_front.is_used_as_before(source, model):
        return []
    front = model_front.front_of_model(source, made)
    if front is None:
        return []
    line = begun.path[0].lineno if begun.path else begun.node.lineno
    named = [_text_in_model(source, call, front.node, line, found) for call in found.calls]
    known = [one for one in named if one is not None]
    if len(known) < len(named):
        return []
    more = dict.fromkeys(edit for _, several in known for edit in several)
    return [*more, *front.insert_layers([text for text, _ in known])]


def _text_in_model(
    source: Source, call: ast.Call, place: ast.AST, line: int, found: AugmentedMap
) -> tuple[str, list[Edit]] | None:
    """How the layer of ``call`` is written at ``place``, and further edits for that."""
    if is_layer_call(source, call):
        return model_front.layer_text(source, call.func, place, line, [c.func for c in found.calls])
    mode = FLIP_LAYERS.get(image_op(source, call))
    if mode is None:
        return None
    keras, imported = keras_models.keras_reference(source)
    return f"{keras}.layers.RandomFlip({mode})", imported
