"""Writes a loop over elements in array code."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from slowtrain.causes.host.elementwise_preprocessing import APPLYING_FUNCTIONS, ElementLoopFinding, looped_calls
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.loops import array_loops
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.source_lines import called_name, loops_around

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


def line_runs(source: Source, line: int) -> int | None:
    """How often a line runs; None unless all loops around it and around its function's calls say their iterations."""
    calls = looped_calls(source.tree, line)
    if any(called_name(call) in APPLYING_FUNCTIONS for call in calls):
        return None
    total = 0
    for outer in [loops_around(source.tree, call.lineno) for call in calls] or [[]]:
        loops = (*loops_around(source.tree, line), *outer)
        counts = [queries.loop_turns(source, head) for loop in loops for head in getattr(loop, "generators", [loop])]
        if None in counts:
            return None
        total += prod(count for count in counts if count is not None)
    return total
