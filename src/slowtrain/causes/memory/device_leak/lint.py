"""Where the cause memory/device-leak shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.memory.device_leak import kept_histories
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Results of fit() that a loop over models keeps."""
    for statement, iterations in kept_histories.find_kept_histories(source):
        often = f"each of {iterations}" if iterations is not None else "each"
        says = f"a History holds its model: the weights of {often} that this loop trains stay in memory"
        cure = "keep history.history; let go of the model, and call keras.backend.clear_session() in each iteration"
        yield spots.node_spot(statement, says, Prescription("advice", Effect.EXACT, cure))
