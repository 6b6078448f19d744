"""Where the cause compute/small-batch shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.compute.small_batch import MAX_GOAL_BATCH, fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.host import fit_calls as spotted
from slowtrain.script.lint_rules.steps import interpreted_ops
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Steps with one to four of thousands of samples."""
    seen: set[ast.expr] = set()
    for given, says, goal, changed in spotted.tiny_batches(source):
        if given in seen:
            continue  # several calls use the same number
        seen.add(given)
        cured = fix.larger_batch_says(goal, more=True) if goal else fix.WINDOWS_CURE
        cure = Prescription("edit", Effect.CHANGES_TRAINING, cured, edits=changed)
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
    for call, size, rows in () if seen else interpreted_ops.small_batches(source):
        larger = fix.larger_batch_says(MAX_GOAL_BATCH, more=True)
        says = f"each step uses {size} of {rows:,} samples"
        place = (
            call_index.operation_range(call)
            if isinstance(call, ast.Call)
            else (edits.node_start(call), edits.node_end(call))
        )
        yield Spot(*place, says, Prescription("edit", Effect.CHANGES_TRAINING, larger))
