"""Lint rules about ``ImageDataGenerator``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.model import Effect, Prescription
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.text.source_file import Source

GENERATOR_CLASS = "keras.preprocessing.image.ImageDataGenerator"
FILE_METHODS = frozenset({".flow_from_directory", ".flow_from_dataframe"})  # Python opens and decodes each image
FLOW_METHODS = FILE_METHODS | {".flow"}
TRANSFORM_METHODS = frozenset({".apply_transform", ".random_transform"})
# Each lets SciPy transform all pixels of an image, which takes 1 ms for 64 x 64 pixels.
MOVING_ARGUMENTS = frozenset("rotation_range width_shift_range height_shift_range shear_range zoom_range".split())
TRANSFORM_TEXT = "a Python loop has SciPy transform one picture after the other"
READ_PRESCRIPTION = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "read the pictures with tf.data (keras.utils.image_dataset_from_directory) and augment by layers, or give fit more "
    "workers",
)
TRANSFORM_PRESCRIPTION = Prescription(
    "edit",
    Effect.CHANGES_TRAINING,
    "let layers (RandomRotation, RandomBrightness) do it for whole batches, in the pipeline",
)
FIT_METHODS = frozenset({".fit", ".fit_generator"})


def single_threaded_generators(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Find generators that training reads in one thread, with a description of their work."""
    if "ImageDataGenerator" not in source.words:
        return
    fed = [e for e in interpreter.project_events(source) if e.name in FIT_METHODS and "workers" not in e.given.keywords]
    taken = {e.given.get(name, place).node for e in fed for name, place in (("x", 0), ("generator", None))} - {None}
    for event in interpreter.file_events(source):
        if (
            event.name in FLOW_METHODS
            and _is_image_generator(event.on)
            and isinstance(event.node, ast.Call)
            and event.node in taken
        ):
            moving = event.on is not None and not MOVING_ARGUMENTS.isdisjoint(event.on.items)
            if event.name in FILE_METHODS:
                yield event.node, _finding_text("decodes and augments" if moving else "decodes")
            elif moving:
                yield event.node, _finding_text("augments")


def _finding_text(does: str) -> str:
    return f"Python {does} every picture of this iterator, in one thread beside the training"


def transforms_in_loop(source: Source) -> Iterator[ast.Call]:
    """Find loops of the script that transform single images."""
    for event in (
        interpreter.file_events(source) if not source.words.isdisjoint(n[1:] for n in TRANSFORM_METHODS) else ()
    ):
        looped = event.regular_loops() and not event.producer and isinstance(event.node, ast.Call)
        if event.name in TRANSFORM_METHODS and _is_image_generator(event.on) and looped:
            yield event.node  # type: ignore[misc]


def _is_image_generator(on: Value | None) -> bool:
    return on is not None and on.kind == "keras" and on.name == GENERATOR_CLASS
