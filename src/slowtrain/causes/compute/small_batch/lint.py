"""Where the cause compute/small-batch shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.compute.small_batch import GOAL
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.compute import walked
from slowtrain.source.spots.host import fits as spotted


def find_spots(source: Source) -> Iterable[Spot]:
    """One to four of thousands of samples in a step."""
    seen: set[ast.expr] = set()
    for given, says, goal, changed in spotted.tiny(source):
        if given in seen:
            continue  # one number that several calls are given
        seen.add(given)
        larger = f"use a batch of {goal} or more, with a learning rate to match"
        cut = "cut the sequence into windows and train on a batch of them"
        cure = Prescription("edit", Effect.CHANGES_TRAINING, larger if goal else cut, edits=changed)
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
    for call, size, rows in () if seen else walked.small(source):
        larger = f"use a batch of {GOAL} or more, with a learning rate to match"
        says = f"{size} of {rows:,} samples in each step"
        place = (
            call_index.operation_range(call)
            if isinstance(call, ast.Call)
            else (edits.node_start(call), edits.node_end(call))
        )
        yield Spot(*place, says, Prescription("edit", Effect.CHANGES_TRAINING, larger))
