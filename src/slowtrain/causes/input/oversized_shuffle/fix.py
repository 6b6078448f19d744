"""Shuffles smaller elements."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.oversized_shuffle import OversizedBuffer
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: OversizedBuffer) -> Iterable[Prescription]:
    changed = recorded_edits.first_applicable(trace, finding.node.places, dataset_edits.shuffle_before_map)
    yield Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=changed)
    yield Prescription("edit", Effect.CHANGES_TRAINING, "make the buffer smaller")
