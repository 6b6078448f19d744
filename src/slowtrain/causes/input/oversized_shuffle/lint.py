"""Where the cause input/oversized-shuffle shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.domain.abstract_values import Value
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.pipelines.interpreted_datasets import ConsumedDataset
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

FLOAT_BYTES = 4
IMAGE_RANK, IMAGE_CHANNELS = 3, 3  # channels: assumed if unknown
MIN_BUFFER_BYTES = 2**30  # a quarter of the memory of a small machine, 4 GiB


def find_spots(source: Source) -> Iterable[Spot]:
    """Buffers behind a map that makes floats, if sizes in the file show that they are large."""
    sizes: dict[ast.Call, int] = {}
    for data, at, call in dataset_stages.training_stages(source, "shuffle"):
        sizes[call] = sizes.get(call) or _buffer_bytes(data, at)
    for call, size in sizes.items():
        if size >= MIN_BUFFER_BYTES:
            made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(call.func)[0]))
            cure = Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=made)
            says = f"this buffer holds {format_number(size / 2**30, 2)} GiB of the results of a map in front of it"
            yield spots.operation_spot(call, says, cure)


def _buffer_bytes(data: ConsumedDataset, at: int) -> int:
    """Return the least size of a buffer behind maps of single elements; 0 if it is unknown."""
    before, there = data.stages[:at], interpreted_datasets.row_count(data.stages[:at])
    held = data.stages[at].given.get("buffer_size", 0).known
    if not dataset_stages.maps_of_rows(before) or interpreted_datasets.gives_batches(before):
        return 0
    if not isinstance(held, int) or held <= 0:
        return 0
    each = sum(map(_leaf_bytes, interpreted_datasets.element_leaves(data.stages[at].before)))
    return each * (min(held, there) if there and "repeat" not in data.names else held)


def _leaf_bytes(leaf: Value) -> int:
    """Return the size of a part of an element; 0 if it is unknown. An image of unknown type is mostly float32."""
    if leaf.dtype or not leaf.shape or len(leaf.shape) != IMAGE_RANK:
        return (interpreted_datasets.element_bytes(leaf, batched=False) or 0) if leaf.dtype else 0
    height, width, channels = leaf.shape
    return (height or 0) * (width or 0) * (channels or IMAGE_CHANNELS) * FLOAT_BYTES
