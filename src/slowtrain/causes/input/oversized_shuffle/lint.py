"""Where the cause input/oversized-shuffle shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import dataset_stages, shuffle_buffers
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

MIN_BUFFER_BYTES = 2**30  # a quarter of the memory of a small machine, 4 GiB


def find_spots(source: Source) -> Iterable[Spot]:
    """Buffers behind a map that makes floats, if literals of the file show that they are large."""
    known = {one.call: one.bytes or 0 for one in shuffle_buffers.buffers_after_maps(source)}
    for more, size in dataset_stages.large_shuffle_buffers(source):
        known[more.call] = known.get(more.call) or size
    for call, size in known.items():
        if size < MIN_BUFFER_BYTES:
            continue
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=made)
        says = f"this buffer holds {format_number(size / 2**30, 2)} GiB of the results of a map in front of it"
        yield Spot(*call_index.operation_range(call), says, cure)
