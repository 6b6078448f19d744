"""Where the cause input/shuffle-fill shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from msgspec.structs import replace

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.interpreter.domain.call_events import Stage
from slowtrain.script.lint_rules import dataset_stages, spots
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.pipelines.interpreted_datasets import ConsumedDataset
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MAX_QUICK_BUFFER = 128  # elements: four batches of the default size, whose decoding takes some tenths of a second
MIN_QUICK_BUFFERS = 4  # of an epoch
MIN_BUFFER_EPOCHS = 4  # elements of the buffer, in multiples of an epoch
MIN_FILL_ELEMENTS = 10_000  # elements beyond an epoch. At 1.6 µs each, they take some ten ms.
KEY_FILL_FACTOR = 2  # factor for plain numbers, at 0.7 µs each
# Records of files: 200 bytes took 5 µs, 5,000 bytes took 20 µs, with the files in memory. So many records take 0.1 s
# or more. If an epoch needs no more than that itself, the work of the input doubles.
MIN_READ_FILL_ELEMENTS = 20_000
# Functions that take 0.1 ms or more per element.
LONG_FUNCTIONS = (
    "decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "decode_and_crop", "decode_wav",
    "read_file", "resize", "stft", "rfft", "fft", "mfcc", "spectrogram", "py_function", "numpy_function", "rot90",
    "rgb_to_", "avg_pool", "max_pool", "conv1d", "conv2d", "conv3d",
)  # fmt: skip
SHUFFLE_NAMES = "shuffle names or records before the expensive map"
ONE_ITERATOR = (
    "take every epoch from one iterator of the repeated data set: .repeat().shuffle(n), and steps_per_epoch in place "
    "of take(), or iter() once"
)


def find_spots(source: Source) -> Iterable[Spot]:
    """Buffers of slow elements, and buffers that hold many times the elements used before a refill."""
    yield from spots.distinct_spots(
        spot
        for data, at, call in dataset_stages.training_stages(source, "shuffle")
        if (spot := _buffer_spot(source, data, at, call)) is not None
    )


def _buffer_spot(source: Source, data: ConsumedDataset, at: int, call: ast.Call) -> Spot | None:
    before, there = data.stages[:at], interpreted_datasets.row_count(data.stages[:at])
    held = data.stages[at].given.get("buffer_size", 0).known
    held = min(held, there or held) if isinstance(held, int) else there
    if {"cache", "snapshot"} & set(data.names) or (held is not None and held <= dataset_stages.MIN_BUFFER_ELEMENTS):
        return None
    maps = dataset_stages.maps_of_rows(before)
    slow = (dataset_stages.first_long_op(one, (name,)) for name in LONG_FUNCTIONS for one in maps)
    does = next((op for op in slow if op is not None), None)
    names = [one.name for one in before]
    once = "map" in names and "repeat" in names[names.index("map") :]  # a repeat after the map: it is filled once
    if does is not None and not once and interpreted_datasets.gives_batches(before) is not True:
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(call.func)[0]))
        says = f"each epoch begins with {does} for every element of this buffer, before its first step"
        spot = spots.operation_spot(call, says, Prescription("edit", Effect.EQUIVALENT, SHUFFLE_NAMES, edits=made))
        return replace(spot, minor=held is not None and _is_quickly_filled(held, there))
    if held is None or data.begun <= 1 or interpreted_datasets.gives_batches(before):
        return None
    limited = data.most or "take" in data.names[at:]
    used = interpreted_datasets.row_count(data.stages, data.most) if limited else None
    if not used or held < _wasteful_buffer_size(before, used):
        return None
    says = f"each epoch fills this buffer with {'' if there else 'up to '}{held} elements and takes {used} of them"
    return spots.operation_spot(call, says, Prescription("edit", Effect.EQUIVALENT, ONE_ITERATOR))


def _is_quickly_filled(held: int, rows: int | None) -> bool:
    return held <= MAX_QUICK_BUFFER and (rows is None or rows >= MIN_QUICK_BUFFERS * held)


def _wasteful_buffer_size(stages: tuple[Stage, ...], used: int) -> int:
    """Return the buffer size from which filling it costs too much for the used elements."""
    records = f".{stages[0].name}" in interpreted_datasets.RECORD_DATASETS or any(
        interpreted_datasets.reads_by_record(one) for one in stages
    )
    keys = KEY_FILL_FACTOR if {one.name for one in stages} <= {"range", "repeat"} else 1
    return (
        max(used, MIN_READ_FILL_ELEMENTS) if records else max(MIN_BUFFER_EPOCHS * used, used + keys * MIN_FILL_ELEMENTS)
    )
