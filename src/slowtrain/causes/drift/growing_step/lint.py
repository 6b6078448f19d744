"""Finds the cause drift/growing-step in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.drift.growing_step import growing_values
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Values that each iteration makes longer, and growing lists that each step goes through."""
    for one, grown, says in growing_values.growing_values(source):
        kept = "keep the newest part of a fixed length; build a data set once, before the loop"
        cure = Prescription("advice", Effect.CHANGES_TRAINING, kept)
        yield Spot(edits.node_start(one), edits.node_end(grown), says, cure)
    for whole, says in growing_values.traversed_growing_lists(source):
        kept = "work only on the rows that a step uses: draw them first, or keep them in an array of a fixed size"
        cure = Prescription("advice", Effect.EXACT, kept)
        yield spots.node_spot(whole, says, cure)
