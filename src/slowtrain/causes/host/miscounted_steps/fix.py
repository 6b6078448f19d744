"""Counts the steps of an epoch in batches, or goes over the data once."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.miscounted_steps import MiscountFinding
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.lint_rules.host import epoch_step_counts
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.trace import Trace

COUNT_BATCHES = "give steps_per_epoch in batches: samples // batch_size"
REMOVE_REPEAT = "take .repeat(n) out of the data set, or run one epoch"


def find_cures(trace: Trace, finding: MiscountFinding) -> Iterable[Prescription]:
    kinds = {m.kind for m in finding.miscounts}
    if "steps" in kinds:
        edits = recorded_edits.first_applicable(trace, finding.places, keras_calls.count_steps_in_batches)
        yield Prescription("edit", Effect.CHANGES_TRAINING, COUNT_BATCHES, edits=edits)
    if "length" in kinds:
        length = "let __len__ return the number of batches, ceil(samples / batch_size)"
        yield Prescription("edit", Effect.CHANGES_TRAINING, length)
    if "repeat" in kinds:
        edits = recorded_edits.first_applicable(trace, finding.places, keras_calls.remove_repeat)
        yield Prescription("edit", Effect.CHANGES_TRAINING, REMOVE_REPEAT, edits=edits)


def smaller_batch(trace: Trace, fit: Event, samples: int, batch: int) -> int:
    """The batch size below ``batch`` with which the steps of ``fit`` cover the samples; 0 if there is none.

    The number of steps is written as a quotient. A plain number is taken to be intended.
    """
    place = fit.place
    source = recorded_source(trace, place.file) if place is not None else None
    if place is None or source is None:
        return 0
    calls = call_index.index_of(source).called("fit")
    given = [
        node_lookup.argument_value(call, "steps_per_epoch")
        for call in calls
        if call.lineno <= place.line <= (call.end_lineno or call.lineno)
    ]
    if not any(epoch_step_counts.is_quotient(source, steps) for steps in given):
        return 0
    return epoch_step_counts.smaller_batch_size(int(fit.data.get("steps_per_epoch") or 0), samples, batch)
