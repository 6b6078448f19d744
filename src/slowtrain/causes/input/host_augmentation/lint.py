"""Where the cause input/host-augmentation shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import keras_augmentation
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras' random layers that a map calls picture by picture, and several of them on whole batches."""
    for one in keras_augmentation.augmenting_maps(source):
        made = tuple(
            dataset_edits.batch_before_map(source, edits.node_end(one.call.func)[0], None, one.ranks, one.ranks)[0]
        )
        says = "or augment whole batches: .batch(n) before this map" if made else ""
        says = says.removeprefix("or ") or "move the augmentation layers to the front of the model"
        cure = Prescription("edit", Effect.EQUIVALENT, says, edits=made)
        says = f"{one.layer} runs dozens of small operations for each single picture"
        yield Spot(*call_index.operation_range(one.call), says, cure)
    for call in keras_augmentation.batch_augmenting_maps(source):
        cure = Prescription("edit", Effect.EQUIVALENT, "move the augmentation layers to the front of the model")
        yield Spot(
            *call_index.operation_range(call), "the host moves all pixels of each batch several times over", cure
        )
