"""Counts the steps of an epoch in batches, or goes over the data once."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.miscounted_steps import MiscountFinding
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.locations.edits import recorded_edits
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
