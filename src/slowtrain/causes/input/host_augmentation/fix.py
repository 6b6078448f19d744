"""Moves augmentation into the model or the step, or lets it work on whole batches."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.host_augmentation import AugmentingMap
from slowtrain.causes.input.host_augmentation.moved_augmentation import move_augmentation
from slowtrain.model import Effect, Prescription
from slowtrain.script.locations.edits import input_edits, recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import user_lines

IN_MODEL = "move the augmentation layers to the front of the model"
IN_STEP = "or of the training step, which runs them for a whole batch"
ON_BATCHES = "augment whole batches: .batch(n) before this map"


def find_cures(trace: Trace, finding: AugmentingMap) -> Iterable[Prescription]:
    """On an accelerator the work leaves the host; on a CPU it stays there and only starts fewer ops."""
    places = input_edits.places_drawing_per_image(trace, user_lines(finding.node)[:1])
    line = finding.node.function_line
    moved = recorded_edits.first_applicable(trace, places, lambda s, at: move_augmentation(s, at, line))
    in_model = Prescription("edit", Effect.EQUIVALENT, f"{IN_MODEL}, {IN_STEP}", edits=moved)
    if finding.takes_batches:
        return [in_model]
    changed = input_edits.batch_before_map(trace, finding.node, places)
    on_batches = Prescription("edit", Effect.EQUIVALENT, ON_BATCHES, edits=changed)
    return [in_model, on_batches] if trace.on_accelerator else [on_batches, in_model]
