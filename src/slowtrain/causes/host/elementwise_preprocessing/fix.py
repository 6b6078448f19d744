"""Writes a loop over elements in array code."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.elementwise_preprocessing import ElementLoopFinding
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.loops import array_loops
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace

VECTORISE = "write the loop over whole NumPy arrays, or save its result and load it"


def find_cures(trace: Trace, finding: ElementLoopFinding) -> Iterable[Prescription]:
    for place in finding.places:
        source = recorded_source(trace, place.file)
        found = array_loops.vectorise_loop(source, place.line) if source is not None else None
        if found is not None:
            effect = Effect.EXACT if found.exact else Effect.EQUIVALENT
            yield Prescription("edit", effect, VECTORISE, edits=found.edits)
            return
    yield Prescription("edit", Effect.EQUIVALENT, VECTORISE)
