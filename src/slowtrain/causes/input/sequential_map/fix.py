"""Lets a map or an interleave make several calls at once."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.sequential_map import SequentialInterleave, SequentialUserMap
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import user_lines


def find_cures(trace: Trace, finding: SequentialUserMap | SequentialInterleave) -> Iterable[Prescription]:
    places = user_lines(finding.node)[:1]
    if isinstance(finding, SequentialInterleave):
        edits = recorded_edits.first_applicable(trace, places, dataset_edits.parallelise_interleave)
        yield Prescription("edit", Effect.EXACT, "give interleave num_parallel_calls=tf.data.AUTOTUNE", edits=edits)
        return
    line, written = finding.node.function_line, finding.node.written
    is_deterministic = written is not None and bool(written.ops) and not written.random
    effect = Effect.EXACT if is_deterministic else Effect.EQUIVALENT
    edits = recorded_edits.first_applicable(trace, places, lambda s, at: dataset_edits.parallelise_map(s, at, line))
    says = "give map num_parallel_calls=tf.data.AUTOTUNE"
    yield Prescription("edit", effect, says, edits=edits, treatment="parallel-map")
