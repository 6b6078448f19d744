"""Where the cause input/host-augmentation shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.input.host_augmentation.fix import IN_MODEL, ON_BATCHES
from slowtrain.causes.input.host_augmentation.moved_augmentation import move_augmentation
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import batched_maps
from slowtrain.script.lint_rules import dataset_stages, keras_names, spots
from slowtrain.script.navigation import call_index, name_bindings, node_lookup
from slowtrain.script.pipelines import dataset_chains, element_sizes, interpreted_datasets, whole_pipelines
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source

# Layers that interpolate every pixel from four others.
RESAMPLING_LAYERS = frozenset(
    "RandomRotation RandomZoom RandomTranslation RandomShear RandomPerspective RandomHeight RandomWidth".split()
)
FIXED_LAYERS = ("Rescaling", "Resizing", "CenterCrop", "Input", "InputLayer")
MIN_BATCH_LAYERS = 3  # fewer layers finish while the device computes its step


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras' random layers that a map calls picture by picture, and several of them on whole batches."""
    yield from augmenting_maps(source)
    for call in batch_augmenting_maps(source):
        moved = tuple(move_augmentation(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EQUIVALENT, IN_MODEL, edits=moved)
        yield spots.operation_spot(call, "the host moves all pixels of each batch several times over", cure)


def augmenting_maps(source: Source) -> Iterator[Spot]:
    """Find each ``map`` before ``batch`` that calls a random layer."""
    maps = call_index.index_of(source).calls_of("map")
    named = _random_layer_names(source) if maps and whole_pipelines.pipelines_of(source) else {}
    for call in maps if named else ():
        several = whole_pipelines.pipelines_with(source, call) if dataset_chains.is_operation(call) else []
        if not several or not all(whole_pipelines.is_element_wise(f, call) for f in several):
            continue
        layer = _called_random_layer(source, call, named)
        if layer is not None:
            parts = element_sizes.element_parts(source, several[0].calls[0])
            ranks = tuple(len(p.shape) for p in parts if p.shape is not None)
            ranks = ranks if len(ranks) == len(parts) else ()
            line = edits.node_end(call.func)[0]
            batched = tuple(batched_maps.batch_before_map(source, line, None, ranks, ranks)[0])
            made = batched or tuple(move_augmentation(source, line))
            cure = Prescription("edit", Effect.EQUIVALENT, ON_BATCHES if batched else IN_MODEL, edits=made)
            says = f"{layer} runs dozens of small operations for each single picture"
            yield spots.operation_spot(call, says, cure)


def batch_augmenting_maps(source: Source) -> Iterator[ast.Call]:
    """Find each ``map`` that resamples whole batches several times."""
    for data, at, call in dataset_stages.training_stages(source, "map") if RESAMPLING_LAYERS & source.words else ():
        called = {e.on.node for e in data.stages[at].does if e.on is not None and e.on.kind == "keras"} - {None}
        made = [n for node in called if node is not None for n in syntax_tree.nodes_inside(node, ast.Call)]
        layers = [node_lookup.called_name(n) for n in made]
        many = sum(name in keras_names.RANDOM_LAYERS for name in layers) >= MIN_BATCH_LAYERS
        resampling = sum(name in RESAMPLING_LAYERS for name in layers) > 1
        if many and resampling and interpreted_datasets.gives_batches(data.stages[:at]):
            yield call


def _random_layer_names(source: Source) -> dict[str, str]:
    """Return names that hold a random layer, or a model of such layers."""
    found: dict[str, str] = {}
    for made in call_index.index_of(source).calls_of(*keras_names.RANDOM_LAYERS):
        if not name_bindings.qualified_name(source, made.func).startswith("keras."):
            continue
        statement = node_lookup.enclosing_statement(source, made)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_random_layer(statement.value):
            target = statement.targets[0]
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
            found[name] = node_lookup.called_name(made)
    return found


def _is_random_layer(value: ast.expr) -> bool:
    """Whether it is a random layer, or a ``Sequential`` of random layers. A model with others is no augmentation."""
    match value:
        case ast.Call() if node_lookup.called_name(value) in keras_names.RANDOM_LAYERS:
            return True
        case ast.Call(args=[ast.List(elts=parts) | ast.Tuple(elts=parts), *_]):
            every = [node_lookup.called_name(p) for p in parts if isinstance(p, ast.Call)]
            known = bool(every) and set(every) <= {*keras_names.RANDOM_LAYERS, *FIXED_LAYERS}
            return known and node_lookup.called_name(value) == "Sequential"
    return False


def _called_random_layer(source: Source, call: ast.Call, named: dict[str, str]) -> str | None:
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Name) and given.id in named:
        return named[given.id]
    function = whole_pipelines.mapped_function(source, call)
    reached = whole_pipelines.reached_statements(source, function) if function is not None else []
    for inner in whole_pipelines.calls_in(reached):
        name, whole = node_lookup.called_name(inner), name_bindings.qualified_name(source, inner.func)
        if name in named and not whole:
            return named[name]
        if name in keras_names.RANDOM_LAYERS and whole.startswith("keras."):
            return name
    return None
