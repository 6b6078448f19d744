"""Moves augmentation into the model, or lets it work on whole batches."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.host_augmentation import AugmentingMap
from slowtrain.model import Effect, Prescription
from slowtrain.script.locations.edits import input_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import user_lines


def find_cures(trace: Trace, finding: AugmentingMap) -> Iterable[Prescription]:
    changed = input_edits.batch_before_map(trace, finding.node, user_lines(finding.node)[:1])
    yield Prescription("edit", Effect.EQUIVALENT, "move the augmentation layers to the front of the model")
    yield Prescription("edit", Effect.EQUIVALENT, "or augment whole batches: .batch(n) before this map", edits=changed)
