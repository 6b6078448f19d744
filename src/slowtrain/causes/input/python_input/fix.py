"""Cures for Python that makes input: whole batches, results that are kept, array code, a thread beside the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes.input.python_input import PythonWork
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Effect, Place, Prescription
from slowtrain.script.fixes.input import background_batches, generator_edits
from slowtrain.script.locations.edits import input_edits, packing_edits, recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed

WHOLE_BATCHES = "make arrays once and use from_tensor_slices, or yield whole batches"
COPIES_OF_DATA = 3.0  # in memory while arrays are stacked and become tensors


def find_cures(trace: Trace, finding: PythonWork) -> Iterable[Prescription]:
    node = input_edits.python_node(trace) if not finding.in_loop else None
    if finding.kind == "samples":
        yield _whole_batch_cure(trace, finding, node)
    if node is not None:
        yield from _cache_cures(trace, finding.where, node)
    if finding.in_loop:
        yield from _loop_line_cures(trace, finding.where)
    for effect, says, edit in input_edits.python_input_fixes(finding.calls, finding.kind):
        if made := recorded_edits.first_applicable(trace, finding.where, edit):
            yield Prescription("edit", effect, says, edits=made)
    if finding.kind != "samples":
        effect, says = input_edits.advice_for_kind(
            finding.kind, input_edits.hottest_function(trace, finding.where), on_jax=trace.on_jax
        )
        yield Prescription("edit", effect, says)
    if node is not None:
        yield from packing_edits.packing_advice(trace, finding.where)


def _whole_batch_cure(trace: Trace, work: PythonWork, node: Node | None) -> Prescription:
    fits = input_edits.fits_in_memory(trace, node, COPIES_OF_DATA)
    arrays = recorded_edits.first_applicable(trace, work.where, generator_edits.use_tensor_slices) if fits else ()
    changed = arrays or recorded_edits.first_applicable(trace, work.where, generator_edits.yield_batches)
    exact = not (arrays and input_feed.is_asked_beyond_end(trace))
    return Prescription("edit", Effect.EXACT if exact else Effect.EQUIVALENT, WHOLE_BATCHES, edits=changed)


def _cache_cures(trace: Trace, where: Sequence[Place], node: Node) -> Iterable[Prescription]:
    """Edits that keep results, if the text shows that they are the same in every epoch."""
    cached = input_edits.repeatable_cache_cures(trace, where, node, "what is made")
    yield from cached
    is_keras = any(p.keras for p in trace.pipelines) or trace.steps.source == "fit"
    if is_keras and not cached and input_edits.fits_in_memory(trace, node):
        changed = recorded_edits.first_applicable(trace, where, generator_edits.remember_batches)
        if changed:
            says = "keep the batches that __getitem__ made: they are the same in every epoch"
            yield Prescription("edit", Effect.EXACT, says, edits=changed, later=True)


def _loop_line_cures(trace: Trace, where: Sequence[Place]) -> Iterable[Prescription]:
    """Edits of the lines of a loop that makes its batches itself."""
    changed = input_edits.hoist_loop_work(trace, where)
    if changed:
        yield Prescription("edit", Effect.EXACT, "do once, before the loop, what each step repeats", edits=changed)
    changed = recorded_edits.first_applicable(trace, where, background_batches.prefetch_in_thread)
    if changed:
        says = "make the next batch in a background thread while the step runs"
        yield Prescription("edit", Effect.EXACT, says, edits=changed)
