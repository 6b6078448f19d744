"""Random layers of Keras that a pipeline calls for one picture after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source, trees
from slowtrain.source.reading import finding, index, values
from slowtrain.source.reading.input import chains, elements, pipelines, taken
from slowtrain.values import dataclass

LAYERS = (
    "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness",
    "RandomCrop", "RandomHeight", "RandomWidth", "RandomShear", "RandomPerspective", "RandomColorJitter", "RandomHue",
    "RandomSaturation", "RandomSharpness", "RandomGaussianBlur", "RandAugment", "AugMix",
)  # fmt: skip


# Each of these takes every pixel from between four others.
RESAMPLING = frozenset(
    "RandomRotation RandomZoom RandomTranslation RandomShear RandomPerspective RandomHeight RandomWidth".split()
)
SEVERAL = 3  # layers, of which fewer are done while a device computes its step


@dataclass(frozen=True)
class Augmenting:
    """A ``map`` that calls ``layer``; ``ranks``: axes of an element's components where they are visible."""

    call: ast.Call
    layer: str
    ranks: tuple[int, ...]


def maps(source: Source) -> Iterator[Augmenting]:
    """Each ``map`` in front of ``batch`` that calls a random layer."""
    maps = index.of(source).called("map")
    named = _named(source) if maps and pipelines.of(source) else {}
    for call in maps if named else ():
        several = pipelines.holding(source, call) if chains.operates(call) else []
        if not several or not all(pipelines.singly(f, call) for f in several):
            continue
        layer = _called(source, call, named)
        if layer is not None:
            parts = elements.parts(source, several[0].calls[0])
            ranks = [len(p.shape) for p in parts if p.shape is not None]
            yield Augmenting(call, layer, tuple(ranks) if len(ranks) == len(parts) else ())


def of_batches(source: Source) -> Iterator[ast.Call]:
    """Each ``map`` that moves every pixel of whole batches several times over."""
    for one in taken.of(source) if any(name in source.words for name in RESAMPLING) else ():
        for at, stage in enumerate(one.stages):
            if stage.name != "map" or not taken.batched(one.stages[:at]):
                continue
            called = {id(e.on): e.on.node for e in stage.does if e.on is not None and e.on.kind == "keras"}
            parts = [n for node in called.values() if node is not None for n in trees.walk(node)]
            layers = [finding.called(n) for n in parts if isinstance(n, ast.Call)]
            many = sum(name in LAYERS for name in layers) >= SEVERAL
            if many and sum(name in RESAMPLING for name in layers) > 1 and (call := taken.written(source, stage)):
                yield call


def _named(source: Source) -> dict[str, str]:
    """Names of the file that hold a random layer, or a model of some."""
    found: dict[str, str] = {}
    for made in index.of(source).called(*LAYERS):
        if not values.qualified(source, made.func).startswith("keras."):
            continue
        statement = finding.statement(source, made)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_layer(statement.value):
            target = statement.targets[0]
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
            found[name] = finding.called(made)
    return found


def _is_layer(value: ast.expr) -> bool:
    """A random layer, or a ``Sequential`` of which one is the first."""
    if not isinstance(value, ast.Call):
        return False
    if finding.called(value) in LAYERS:
        return True
    parts = value.args[0].elts if value.args and isinstance(value.args[0], (ast.List, ast.Tuple)) else []
    every = [finding.called(p) for p in parts if isinstance(p, ast.Call)]
    # A whole model with layers of its own is no augmentation.
    fixed = ("Rescaling", "Resizing", "CenterCrop", "Input", "InputLayer")
    return finding.called(value) == "Sequential" and bool(every) and all(n in (*LAYERS, *fixed) for n in every)


def _called(source: Source, call: ast.Call, named: dict[str, str]) -> str | None:
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Name) and given.id in named:
        return named[given.id]
    function = pipelines.function(source, call)
    if function is None:
        return None
    for inner in pipelines.calls(pipelines.reached(source, function)):
        if finding.called(inner) in named and not values.qualified(source, inner.func):
            return named[finding.called(inner)]
        if finding.called(inner) in LAYERS and values.qualified(source, inner.func).startswith("keras."):
            return finding.called(inner)
    return None
