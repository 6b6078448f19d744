"""Where the cause compute/double-precision shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.double_precision import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots import reached
from slowtrain.source.spots.compute import walked
from slowtrain.source.spots.numerics import numbers


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras set to float64 for all of a file; weights made of NumPy's float64."""
    says = {
        "Variable": "NumPy makes float64: this weight, and all that is computed with it, is of twice the width",
        "": "this makes all layers compute in float64",
    }
    known = (*numbers.global_doubles(source), *reached.doubles(source))
    every = tuple(dict.fromkeys(known or walked.doubles(source)))
    made = fix.single(source) if every else ()
    for call in every:
        single = "compute in float32: drop set_floatx('float64'), make the data float32"
        cure = Prescription("edit", Effect.CHANGES_TRAINING, single, edits=made)
        seen = says.get(node_lookup.called_name(call), says[""])
        yield Spot(edits.node_start(call), edits.node_end(call), seen, cure)
