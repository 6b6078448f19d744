"""Where the cause host/miscounted-steps shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import kerascalls
from slowtrain.source.spots.host import counting, every


def find_spots(source: Source) -> Iterable[Spot]:
    """Steps that are counted in samples; a data set that repeats itself for the epochs of ``fit``."""
    counted, twice = tuple(counting.in_samples(source)), tuple(counting.repeated_twice(source))
    for node, says in () if counted or twice else every.miscounted(source):
        batches = "count batches: steps_per_epoch = samples // batch_size, and one pass over the data set in an epoch"
        cure = Prescription("edit", Effect.CHANGES_TRAINING, batches)
        yield Spot(edits.node_start(node), edits.node_end(node), says, cure)
    for call, given, says in counted:
        batches = "give steps_per_epoch in batches: samples // batch_size"
        made = tuple(kerascalls.counted_in_batches(source, call.lineno))
        cure = Prescription("edit", Effect.CHANGES_TRAINING, batches, edits=made)
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
    for call, says in twice:
        once = "take .repeat(n) out of the data set, or run one epoch"
        made = tuple(kerascalls.unrepeated(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.CHANGES_TRAINING, once, edits=made)
        yield Spot(*call_index.operation_range(call), says, cure)
