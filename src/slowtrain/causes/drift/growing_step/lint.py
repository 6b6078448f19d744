"""Where the cause drift/growing-step shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.drift.growing_step import collected, growing
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Tensors and arrays that are joined to themselves, and data sets that get a stage, in each turn."""
    for one, grown, says in growing.longer(source):
        kept = "keep the newest part of a fixed length; build a data set once, before the loop"
        cure = Prescription("advice", Effect.CHANGES_TRAINING, kept)
        yield Spot(edits.node_start(one), edits.node_end(grown), says, cure)
    for whole, says in collected.gone_through(source):
        kept = "work on what a step takes: draw the rows first, or keep them in an array of a fixed size"
        cure = Prescription("advice", Effect.EXACT, kept)
        yield Spot(edits.node_start(whole), edits.node_end(whole), says, cure)
