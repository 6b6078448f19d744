"""Where the cause transfer/wide-input shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.transfer.wide_input import fix, wide_numbers
from slowtrain.causes.transfer.wide_input.fix import AS_FLOAT32, ASTYPE_CALL, IN_MODEL, wide_arrays
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Arrays of float64 in a data set that training uses; maps that cast bytes to floats."""
    for array in wide_arrays(source):
        made = tuple(edits.append_to_chain(source, array, ASTYPE_CALL))
        cure = Prescription("edit", Effect.EQUIVALENT, AS_FLOAT32, edits=made)
        says = "this array is float64: each batch takes twice the bytes that the model's float32 needs"
        yield spots.node_spot(array, says, cure)
    for call in wide_numbers.find_widening_maps(source):
        made = tuple(fix.cast_in_model(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EQUIVALENT, IN_MODEL, edits=made)
        says = "this map only casts bytes to floats: from here on each batch takes four times the bytes"
        yield spots.operation_spot(call, says, cure)
