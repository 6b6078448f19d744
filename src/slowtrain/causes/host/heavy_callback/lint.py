"""Finds the cause host/heavy-callback in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.host import per_step_work
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Callbacks that save, predict, draw or count all weights after every batch."""
    for one in per_step_work.heavy_step_work(source):
        cure = Prescription("edit", Effect.EXACT, one.cure, edits=one.changed)
        yield Spot(one.start, one.end, one.says, cure)
