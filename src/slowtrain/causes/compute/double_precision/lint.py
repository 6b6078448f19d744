"""Where the cause compute/double-precision shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.double_precision import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.compute import numeric_ranges
from slowtrain.script.lint_rules.steps import interpreted_ops, reached_code
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras set to float64 for a whole file; weights made from float64 arrays of NumPy."""
    says = {
        "Variable": "NumPy makes float64, so this weight and all that is computed with it are float64",
        "": "this makes all layers compute in float64",
    }
    known = (*numeric_ranges.global_double_settings(source), *reached_code.double_weights(source))
    calls = tuple(dict.fromkeys(known or interpreted_ops.double_precision_settings(source)))
    changed = fix.single_precision_edits(source) if calls else ()
    for call in calls:
        cure = Prescription("edit", Effect.CHANGES_TRAINING, fix.SINGLE_PRECISION_CURE, edits=changed)
        seen = says.get(node_lookup.called_name(call), says[""])
        yield Spot(edits.node_start(call), edits.node_end(call), seen, cure)
