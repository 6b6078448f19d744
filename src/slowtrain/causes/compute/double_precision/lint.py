"""Where the cause compute/double-precision shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.compute.double_precision import fix
from slowtrain.causes.compute.double_precision.fix import SINGLE_PRECISION_CURE
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.lint_rules.double_weights import double_weights
from slowtrain.script.text.source_file import Source

WEIGHT_TEXT = "NumPy makes float64, so this weight and all that is computed with it are float64"
DTYPE_SETTERS = frozenset({"set_floatx", "set_dtype_policy", "set_global_policy"})


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras set to float64 for a whole file; weights made from float64 arrays of NumPy."""
    found = dict.fromkeys(double_precision_settings(source), "this makes all layers compute in float64")
    found |= dict.fromkeys(double_weights(source), WEIGHT_TEXT)
    changed = fix.single_precision_edits(source) if found else ()
    cure = Prescription("edit", Effect.CHANGES_TRAINING, SINGLE_PRECISION_CURE, edits=changed)
    yield from (spots.node_spot(call, says, cure) for call, says in found.items())


def double_precision_settings(source: Source) -> Iterator[ast.Call]:
    """Find settings that make all layers, or one layer, use float64."""
    every = file_events(source) if "float64" in source.text else ()
    setting = [e for e in every if e.name.rpartition(".")[2] in DTYPE_SETTERS and e.name.startswith("keras.")]
    for event in every:
        if not isinstance(event.node, ast.Call):
            continue
        last = event.name.rpartition(".")[2]
        chosen = setting == [event] and event.given.get("", 0).known == "float64"  # and no other call resets it
        wide = event.name.startswith("keras.layers.") and last in keras_names.COMPUTING_LAYERS
        if chosen or (wide and event.given.get("dtype").known == "float64"):
            yield event.node
            return
