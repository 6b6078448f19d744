"""Finds the cause host/garbage-collection in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.garbage_collection import collect_calls
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import hoisting
from slowtrain.source.spots.host import every


def find_spots(source: Source) -> Iterable[Spot]:
    """``gc.collect()`` next to a training step in its loop, or in a hook of each batch."""
    known = tuple(collect_calls.frequent_collect_calls(source))
    for call in known or dict.fromkeys(every.swept(source)):
        after = "collect after the loop, or not at all"
        cure = Prescription("edit", Effect.EXACT, after, edits=tuple(hoisting.collected_after(source, call.lineno)))
        says = "the collector goes through all objects after each step, which a step hardly needs"
        yield Spot(edits.node_start(call), edits.node_end(call), says, cure)
