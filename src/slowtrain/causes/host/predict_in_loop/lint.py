"""Where the cause host/predict-in-loop shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.predict_in_loop import CALLED, ON_BATCH
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots import reached
from slowtrain.source.spots.host import fits


def find_spots(source: Source) -> Iterable[Spot]:
    """``predict`` of a few rows, or ``fit`` of one step, many times over."""
    known = list(fits.little(source))
    seen = {call for call, _, _ in known}
    for call in dict.fromkeys(one for one in reached.little_predicts(source) if one not in seen):
        says = "predict() is called for few rows in each turn of a loop, and each call has its fixed price"
        yield Spot(*call_index.operation_range(call), says, Prescription("edit", Effect.EQUIVALENT, CALLED))
    for call, says, changed in known:
        cure = ON_BATCH if changed else CALLED
        if node_lookup.called_name(call) == "fit":
            cure = "call train_on_batch for each chunk, or one fit over all of them"
        yield Spot(
            *call_index.operation_range(call), says, Prescription("edit", Effect.EQUIVALENT, cure, edits=changed)
        )
