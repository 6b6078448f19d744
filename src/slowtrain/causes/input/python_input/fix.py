"""What spares Python that makes input from doing the same again, or lets it work while the step runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Effect, Place, Prescription
from slowtrain.source.cures import input_edits, measured
from slowtrain.source.cures.input import ahead, generators
from slowtrain.trace import Trace


def same_again(trace: Trace, where: Sequence[Place], node: Node) -> Iterable[Prescription]:
    """What keeps results that are the same in every epoch, where the text shows that they are."""
    made = input_edits.cache_if_repeatable(trace, where, node)
    if made:
        yield Prescription("edit", Effect.EXACT, "keep what is made with .cache()", edits=made, later=True)
    several = any(p.keras for p in trace.pipelines) or trace.steps.source == "fit"
    if several and not made and input_edits.fits_in_memory(trace, node):
        made = measured.first(trace, where, generators.remembered)
        if made:
            says = "keep the batches that __getitem__ made: they are the same in every epoch"
            yield Prescription("edit", Effect.EXACT, says, edits=made, later=True)


def in_lines(trace: Trace, where: Sequence[Place]) -> Iterable[Prescription]:
    """What can be done about the lines of a loop that makes its batches itself."""
    made = input_edits.hoist_loop_work(trace, where)
    if made:
        yield Prescription("edit", Effect.EXACT, "do once, before the loop, what each step does anew", edits=made)
    made = measured.first(trace, where, ahead.made_ahead)
    if made:
        says = "make the next batch in a background thread while the step runs"
        yield Prescription("edit", Effect.EXACT, says, edits=made)
