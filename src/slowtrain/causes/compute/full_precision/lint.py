"""Where the cause compute/full-precision shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.full_precision import late_policy
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """A mixed policy that is set after all layers were made."""
    for call in late_policy.find_late_policies(source):
        says = "the layers are made before this policy is set, so they compute in float32"
        cure = Prescription("edit", Effect.CHANGES_TRAINING, "set the policy before making the first layer")
        yield spots.node_spot(call, says, cure)
