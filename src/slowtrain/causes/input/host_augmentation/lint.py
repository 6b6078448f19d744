"""Where the cause input/host-augmentation shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Layers that interpolate every pixel from four others.
RESAMPLING_LAYERS = frozenset(
    "RandomRotation RandomZoom RandomTranslation RandomShear RandomPerspective RandomHeight RandomWidth".split()
)
MIN_BATCH_LAYERS = 3  # fewer layers finish while the device computes its step


@dataclass(frozen=True)
class AugmentingMap:
    """A ``map`` that calls ``layer``. ``ranks``: ranks of the components of an element if visible."""

    call: ast.Call
    layer: str
    ranks: tuple[int, ...]


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras' random layers that a map calls picture by picture, and several of them on whole batches."""
    for one in augmenting_maps(source):
        made = tuple(
            dataset_edits.batch_before_map(source, edits.node_end(one.call.func)[0], None, one.ranks, one.ranks)[0]
        )
        says = "or augment whole batches: .batch(n) before this map" if made else ""
        says = says.removeprefix("or ") or "move the augmentation layers to the front of the model"
        cure = Prescription("edit", Effect.EQUIVALENT, says, edits=made)
        says = f"{one.layer} runs dozens of small operations for each single picture"
        yield spots.operation_spot(one.call, says, cure)
    for call in batch_augmenting_maps(source):
        cure = Prescription("edit", Effect.EQUIVALENT, "move the augmentation layers to the front of the model")
        yield spots.operation_spot(call, "the host moves all pixels of each batch several times over", cure)


def augmenting_maps(source: Source) -> Iterator[AugmentingMap]:
    """Find each ``map`` before ``batch`` that calls a random layer."""
    maps = call_index.index_of(source).called("map")
    named = _random_layer_names(source) if maps and whole_pipelines.pipelines_of(source) else {}
    for call in maps if named else ():
        several = whole_pipelines.pipelines_with(source, call) if dataset_chains.is_operation(call) else []
        if not several or not all(whole_pipelines.is_element_wise(f, call) for f in several):
            continue
        layer = _called_random_layer(source, call, named)
        if layer is not None:
            parts = element_sizes.element_parts(source, several[0].calls[0])
            ranks = [len(p.shape) for p in parts if p.shape is not None]
            yield AugmentingMap(call, layer, tuple(ranks) if len(ranks) == len(parts) else ())


def batch_augmenting_maps(source: Source) -> Iterator[ast.Call]:
    """Find each ``map`` that resamples whole batches several times."""
    for one in (
        interpreted_datasets.datasets_of(source) if any(name in source.words for name in RESAMPLING_LAYERS) else ()
    ):
        for at, stage in enumerate(one.stages):
            if stage.name != "map" or not interpreted_datasets.gives_batches(one.stages[:at]):
                continue
            called = {id(e.on): e.on.node for e in stage.does if e.on is not None and e.on.kind == "keras"}
            parts = [n for node in called.values() if node is not None for n in syntax_tree.walk(node)]
            layers = [node_lookup.called_name(n) for n in parts if isinstance(n, ast.Call)]
            many = sum(name in keras_names.RANDOM_LAYERS for name in layers) >= MIN_BATCH_LAYERS
            if (
                many
                and sum(name in RESAMPLING_LAYERS for name in layers) > 1
                and (call := interpreted_datasets.stage_call(source, stage))
            ):
                yield call


def _random_layer_names(source: Source) -> dict[str, str]:
    """Return names that hold a random layer, or a model of such layers."""
    found: dict[str, str] = {}
    for made in call_index.index_of(source).called(*keras_names.RANDOM_LAYERS):
        if not name_bindings.qualified_name(source, made.func).startswith("keras."):
            continue
        statement = node_lookup.enclosing_statement(source, made)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_random_layer(statement.value):
            target = statement.targets[0]
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
            found[name] = node_lookup.called_name(made)
    return found


def _is_random_layer(value: ast.expr) -> bool:
    """Whether it is a random layer, or a ``Sequential`` of random layers."""
    if not isinstance(value, ast.Call):
        return False
    if node_lookup.called_name(value) in keras_names.RANDOM_LAYERS:
        return True
    parts = value.args[0].elts if value.args and isinstance(value.args[0], (ast.List, ast.Tuple)) else []
    every = [node_lookup.called_name(p) for p in parts if isinstance(p, ast.Call)]
    # A model with other layers is no augmentation.
    fixed = ("Rescaling", "Resizing", "CenterCrop", "Input", "InputLayer")
    return (
        node_lookup.called_name(value) == "Sequential"
        and bool(every)
        and all(n in (*keras_names.RANDOM_LAYERS, *fixed) for n in every)
    )


def _called_random_layer(source: Source, call: ast.Call, named: dict[str, str]) -> str | None:
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Name) and given.id in named:
        return named[given.id]
    function = whole_pipelines.mapped_function(source, call)
    if function is None:
        return None
    for inner in whole_pipelines.calls_in(whole_pipelines.reached_statements(source, function)):
        if node_lookup.called_name(inner) in named and not name_bindings.qualified_name(source, inner.func):
            return named[node_lookup.called_name(inner)]
        if node_lookup.called_name(inner) in keras_names.RANDOM_LAYERS and name_bindings.qualified_name(
            source, inner.func
        ).startswith("keras."):
            return node_lookup.called_name(inner)
    return None
