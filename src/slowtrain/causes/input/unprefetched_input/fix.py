"""Makes the next batch while the step runs."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.unprefetched_input import ExposedInput
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.input import background_batches, dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: ExposedInput) -> Iterable[Prescription]:
    if finding.hand is not None:
        changed = recorded_edits.first_applicable(trace, finding.where, background_batches.prefetch_in_thread)
        says = "make the next batch in a background thread while the step runs"
        yield Prescription("edit", Effect.EXACT, says, edits=changed)
        return
    # The first of these lines is the pipeline's last operation. In front of it, prefetch would hide less.
    changed = recorded_edits.first_applicable(trace, finding.where[:1], dataset_edits.add_prefetch)
    says = "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
    yield Prescription("edit", Effect.EXACT, says, edits=changed, treatment="prefetch")
