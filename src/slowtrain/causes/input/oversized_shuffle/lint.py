"""Where the cause input/oversized-shuffle shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules import dataset_stages, shuffle_buffers, spots
from slowtrain.script.pipelines import interpreted_datasets
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_BUFFER_BYTES = 2**30  # a quarter of the memory of a small machine, 4 GiB


def find_spots(source: Source) -> Iterable[Spot]:
    """Buffers behind a map that makes floats, if literals of the file show that they are large."""
    known = {one.call: one.bytes or 0 for one in shuffle_buffers.buffers_after_maps(source)}
    for more, size in large_shuffle_buffers(source):
        known[more.call] = known.get(more.call) or size
    for call, size in known.items():
        if size < MIN_BUFFER_BYTES:
            continue
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=made)
        says = f"this buffer holds {format_number(size / 2**30, 2)} GiB of the results of a map in front of it"
        yield spots.operation_spot(call, says, cure)


def large_shuffle_buffers(source: Source) -> Iterator[tuple[dataset_stages.SlowStage, int]]:
    """Find buffers after maps, with their minimum size in bytes if known."""
    for one in interpreted_datasets.datasets_of(source) if ".shuffle" in source.text else ():
        for at, stage in enumerate(one.stages):
            maps = dataset_stages.maps_of_rows(one.stages[:at]) if stage.name == "shuffle" else []
            if not maps or interpreted_datasets.gives_batches(one.stages[:at]) is not False:
                continue
            held, there = stage.given.get("buffer_size", 0).known, interpreted_datasets.row_count(one.stages[:at])
            each = sum(
                interpreted_datasets.element_bytes(leaf, batched=False) or 0
                for leaf in interpreted_datasets.element_leaves(stage.before)
                if leaf.dtype
            )
            if (
                each
                and isinstance(held, int)
                and held > 0
                and (call := interpreted_datasets.stage_call(source, stage)) is not None
            ):
                many = min(held, there) if there and "repeat" not in one.names else held
                yield dataset_stages.SlowStage(call, "", early=True), many * each
