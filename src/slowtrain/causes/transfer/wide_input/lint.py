"""Where the cause transfer/wide-input shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.transfer.wide_input import IN_MODEL, IN_SINGLE, SINGLE, _doubles, narrowed, widened
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Arrays of float64 in a data set that training takes its batches from, bytes that a map makes floats of."""
    for array in _doubles(source):
        made = tuple(edits.append_to_chain(source, array, SINGLE))
        cure = Prescription("edit", Effect.EQUIVALENT, IN_SINGLE, edits=made)
        says = "this array is float64: each batch takes twice the bytes that the model's float32 needs"
        yield Spot(edits.node_start(array), edits.node_end(array), says, cure)
    for call in widened.maps(source):
        made = tuple(narrowed.cast_in_model(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EQUIVALENT, IN_MODEL, edits=made)
        says = "this map only makes floats of bytes: each batch takes four times the bytes from here on"
        yield Spot(*call_index.operation_range(call), says, cure)
