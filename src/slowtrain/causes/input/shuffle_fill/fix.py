"""Shuffles before the expensive work of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals import shuffle_fill


def find_cures(trace: Trace, finding: shuffle_fill.ShuffleFill) -> Iterable[Prescription]:
    changed = recorded_edits.first_applicable(trace, finding.node.places, dataset_edits.shuffle_before_map)
    yield Prescription("edit", Effect.EQUIVALENT, "shuffle names or records before the expensive map", edits=changed)
    yield Prescription("edit", Effect.CHANGES_TRAINING, "make the buffer smaller: less thorough shuffling")
