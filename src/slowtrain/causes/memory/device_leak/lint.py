"""Where the cause memory/device-leak shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.memory.device_leak import models
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """What fit() gave back, kept for each of many models."""
    for kept, turns in models.by_history(source):
        often = f"each of {turns}" if turns is not None else "each"
        says = f"a History holds its model: the weights of {often} that this loop trains stay in memory"
        cure = "keep history.history; let go of the model, and call keras.backend.clear_session() in each turn"
        yield Spot(edits.node_start(kept), edits.node_end(kept), says, Prescription("advice", Effect.EXACT, cure))
