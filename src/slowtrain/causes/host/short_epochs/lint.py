"""Finds the cause host/short-epochs in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.short_epochs import epoch_lengths, fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Hundreds of epochs of a few steps, with little data through dense layers."""
    for node, says in epoch_lengths.short_epochs(source):
        changed = tuple(fix.repeat_dataset(source, node.lineno))
        place = (
            call_index.operation_range(node)
            if isinstance(node, ast.Call)
            else (edits.node_start(node), edits.node_end(node))
        )
        yield Spot(*place, says, Prescription("edit", Effect.EQUIVALENT, fix.KEEP_ITERATOR, edits=changed))
