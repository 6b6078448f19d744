"""Lint rules about ``ImageDataGenerator``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Effect, Prescription
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.text.source_file import Source

MAKER = "keras.preprocessing.image.ImageDataGenerator"
FILES = frozenset({".flow_from_directory", ".flow_from_dataframe"})  # Python opens and decodes each image
FLOWS = FILES | {".flow"}
ONE_BY_ONE = frozenset({".apply_transform", ".random_transform"})
# Each lets SciPy transform all pixels of an image, which takes 1 ms for 64 x 64 pixels.
MOVING = frozenset("rotation_range width_shift_range height_shift_range shear_range zoom_range".split())
SAYS = "a Python loop has SciPy transform one picture after the other"
READ = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "read the pictures with tf.data (keras.utils.image_dataset_from_directory) and augment by layers, or give fit more "
    "workers",
)
CURE = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "let layers (RandomRotation, RandomBrightness) do it for whole batches, in the pipeline",
)
FITS = frozenset({".fit", ".fit_generator"})


def unhelped(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find generators that training reads in one thread, with a description of their work."""
    if "ImageDataGenerator" not in source.words:
        return
    fed = [e for e in interpreter.project_events(source) if e.name in FITS and "workers" not in e.given.keywords]
    taken = {e.given.get(name, place).node for e in fed for name, place in (("x", 0), ("generator", None))} - {None}
    for event in interpreter.file_events(source):
        if event.name in FLOWS and _reader(event.on) and isinstance(event.node, ast.Call) and event.node in taken:
            moving = event.on is not None and not MOVING.isdisjoint(event.on.items)
            if event.name in FILES:
                yield event.node, _says("decodes and augments" if moving else "decodes")
            elif moving:
                yield event.node, _says("augments")


def _says(does: str) -> str:
    return f"Python {does} every picture of this iterator, in one thread beside the training"


def one_by_one(source: Source) -> Iterator[ast.Call]:
    """Find loops of the script that transform single images."""
    for event in interpreter.file_events(source) if not source.words.isdisjoint(n[1:] for n in ONE_BY_ONE) else ():
        looped = event.regular_loops() and not event.producer and isinstance(event.node, ast.Call)
        if event.name in ONE_BY_ONE and _reader(event.on) and looped:
            yield event.node  # type: ignore[misc]


def _reader(on: Value | None) -> bool:
    return on is not None and on.kind == "keras" and on.name == MAKER
