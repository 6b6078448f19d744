"""Where the cause machine/library-mismatch shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.machine import strategies


def find_spots(source: Source) -> Iterable[Spot]:
    """A strategy for several workers in a script that trains with ``fit``."""
    for call in strategies.failing(source):
        cure = Prescription("advice", Effect.EQUIVALENT, strategies.CURE)
        yield Spot(edits.node_start(call), edits.node_end(call), strategies.SAYS, cure)
