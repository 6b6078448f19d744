"""Moves collections out of the loop, or makes them skip what stays."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.garbage_collection import CollectionFinding
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.loops import moved_statements
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: CollectionFinding) -> Iterable[Prescription]:
    if finding.are_requested:
        says = "take gc.collect() (or clear_session()) out of the loop"
        edits = recorded_edits.first_applicable(trace, finding.places, moved_statements.move_collect_after_loop)
        yield Prescription("edit", Effect.EXACT, says, edits=edits)
    else:
        says = "call gc.freeze() once the model is built, so that collections skip the objects that stay"
        steps = [trace.steps.place] if trace.steps.place is not None else []
        yield Prescription(
            "treatment",
            Effect.EXACT,
            says,
            edits=recorded_edits.first_applicable(trace, steps, moved_statements.freeze_before_loop),
        )
