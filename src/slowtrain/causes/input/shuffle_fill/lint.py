"""Where the cause input/shuffle-fill shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.lint_rules.input import dataset_stages, shuffle_buffers
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Buffers of elements whose map takes long, which each epoch fills again."""
    known = [one for one in shuffle_buffers.buffers_after_maps(source) if one.does is not None]
    for one in known:
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(one.call.func)[0]))
        says = "shuffle names or records before the expensive map"
        cure = Prescription("edit", Effect.EQUIVALENT, says, edits=made)
        says = f"each epoch begins with {one.does} for every element of this buffer, before its first step"
        yield Spot(*call_index.operation_range(one.call), says, cure)
    for more in dataset_stages.stages_not_known([one.call for one in known], dataset_stages.slow_buffer_fills(source)):
        made = tuple(dataset_edits.shuffle_before_map(source, edits.node_end(more.call.func)[0])) if more.early else ()
        says = "shuffle names or records before the expensive map"
        if not more.early:
            says = "take every epoch from one iterator of the repeated data set: .repeat().shuffle(n), and "
            says += "steps_per_epoch in place of take(), or iter() once"
        yield Spot(
            *call_index.operation_range(more.call), more.says, Prescription("edit", Effect.EQUIVALENT, says, edits=made)
        )
