"""A larger batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes.compute.small_batch import Basis, LargerBatch
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.models import batch_sizes, keras_calls
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace

WINDOWS_CURE = "cut the sequence into windows and train on batches of them"


def find_cures(trace: Trace, finding: LargerBatch) -> Iterable[Prescription]:
    if finding.basis is Basis.SEQUENCE:
        yield Prescription("edit", Effect.CHANGES_TRAINING, WINDOWS_CURE)
        return
    edits = _batch_edits(trace, finding.where, int(finding.size), int(finding.goal))
    says = larger_batch_says(finding.goal, more=finding.basis is Basis.FIXED_COST)
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edits)
    if trace.steps.source == "fit" and not trace.on_jax:
        places = [e.place for e in trace.events_of("compile") if e.place is not None]
        several = recorded_edits.first_applicable(trace, places, keras_calls.run_several_steps_per_call)
        says = f"compile(steps_per_execution={keras_calls.STEPS_PER_CALL}): the same updates with fewer calls"
        yield Prescription("setting", Effect.EXACT, says, edits=several)


def find_lines(trace: Trace, finding: LargerBatch) -> Iterable[Place]:
    """Lines that set the batch size."""
    for place in finding.where:
        yield from source_places.file_places(trace, place, source_locations.batch_size_line)


def larger_batch_says(goal: float, more: bool) -> str:
    """``more``: whether an even larger batch may gain as well."""
    return f"use a batch of {goal:.0f}{' or more' if more else ''}, with a learning rate to match"


def _batch_edits(trace: Trace, where: Sequence[Place], size: int, goal: int) -> tuple[Edit, ...]:
    """The larger batch at the first of the places that sets the size."""
    for file in dict.fromkeys(p.file for p in where):
        source = recorded_source(trace, file)
        lines = [p.line for p in where if p.file == file]
        edits = batch_sizes.enlarge_batches(source, lines, size, goal) if source is not None else ()
        if edits:
            return edits
    return ()
