"""Removes the settings that keep a recurrent layer off cuDNN."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.unfused_rnn import RecurrentLoops
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: RecurrentLoops) -> Iterable[Prescription]:
    for place, setting in finding.settings[:1]:
        source = recorded_source(trace, place.file)
        edits, same = keras_models.use_fused_rnn(source, place.line) if source is not None else ((), False)
        effect = Effect.EQUIVALENT if same else Effect.CHANGES_TRAINING
        yield Prescription("edit", effect, f"remove {setting}, which cuDNN does not support", edits=edits)
    defaults = "keep the layer's default settings: tanh, sigmoid, no recurrent_dropout, no unroll, biases"
    yield Prescription("edit", Effect.CHANGES_TRAINING, defaults)
