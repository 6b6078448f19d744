"""Where the cause input/per-element-map shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.per_element_map import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import dataset_stages, tiny_maps
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Maps of cheap operations in front of ``batch``, over elements that are visibly small."""
    known = list(tiny_maps.tiny_maps(source))
    for one in known:
        line = edits.node_end(one.call.func)[0]
        made = tuple(dataset_edits.batch_before_map(source, line, None, one.ranks)[0])
        cure = Prescription("edit", Effect.EQUIVALENT, "batch first, then map over whole batches", edits=made)
        says = f"map is called for each {one.says}, and the call takes longer than its few operations"
        yield Spot(*call_index.operation_range(one.call), says, cure)
    for more in dataset_stages.stages_not_known([one.call for one in known], dataset_stages.cheap_element_maps(source)):
        line = edits.node_end(more.call.func)[0]
        made = tuple(dataset_edits.batch_before_map(source, line, None, ())[0])
        cure = Prescription("edit", Effect.EQUIVALENT, "batch first, then map over whole batches", edits=made)
        says = f"map is called for each {more.says}, and the call takes longer than its few operations"
        yield Spot(*call_index.operation_range(more.call), says, cure)
    for call in tiny_maps.window_maps(source):
        made = tuple(fix.gather_windows(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.EXACT, "gather whole batches of windows by their index", edits=made)
        says = "this makes a data set and an iterator for each window"
        yield Spot(*call_index.operation_range(call), says, cure)
