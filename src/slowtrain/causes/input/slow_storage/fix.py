"""Keeps what was read, or reads it beside the step."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.idle_input_wait import IdleInputWait, reads_files
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.input import background_batches
from slowtrain.script.locations.edits import input_edits, packing_edits, recorded_edits
from slowtrain.script.locations.recorded_sources import handmade_input
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import slowest_stage_nodes


def find_cures(trace: Trace, finding: IdleInputWait) -> Iterable[Prescription]:
    pipe = trace.pipeline
    readers = [n for n in slowest_stage_nodes(pipe) if reads_files(trace, n)] if pipe is not None else []
    node = input_edits.python_node(trace) or (readers[0] if readers else None)
    if handmade_input(trace) is not None:
        in_thread = recorded_edits.first_applicable(trace, finding.where, background_batches.prefetch_in_thread)
        says = "fetch the next batch in a background thread while the step runs"
        yield Prescription("edit", Effect.EXACT, says, edits=in_thread)
    yield from input_edits.repeatable_cache_cures(trace, finding.where, node, "what was read")
    yield from packing_edits.packing_advice(trace, finding.where)
    yield Prescription(
        "advice", Effect.EXACT, "read several pieces at once, or copy the data to a local disk or into memory"
    )
    yield Prescription(
        "advice", Effect.EQUIVALENT, "store fewer bytes an element: uint8 instead of floats, compressed records"
    )
