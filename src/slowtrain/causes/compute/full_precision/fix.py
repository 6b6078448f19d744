"""Switches TF32 or mixed precision on."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.full_precision import TF32, WideMatrixWork
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores


def find_cures(trace: Trace, _finding: WideMatrixWork) -> Iterable[Prescription]:
    card = tensor_cores.find_card(trace)
    device = trace.device
    if (
        card
        and card.peaks
        and card.peaks[1]
        and card.vendor == "nvidia"
        and device
        and device.matrix_ms.get(TF32, 0.0) <= 0
    ):
        on = "switch TF32 on: tf.config.experimental.enable_tensor_float_32_execution(True)"
        if trace.on_jax:
            on = 'switch TF32 on: jax.config.update("jax_default_matmul_precision", "default")'
        switched = edit_project(trace, keras_models.allow_tensor_float)
        yield Prescription("edit" if switched else "setting", Effect.EQUIVALENT, on, edits=switched)
    format_ = "mixed_bfloat16" if card is not None and card.capability >= (8, 0) else "mixed_float16"
    says = f'keras.mixed_precision.set_global_policy("{format_}") before the model is built'
    done = edit_project(trace, lambda text: keras_models.use_mixed_precision(text, format_))
    policy = "mixed-precision" if format_ == "mixed_float16" else None
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=done, treatment=policy)
