"""Compiles the step with XLA, which fuses chains of elementwise ops."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.compute.unfused_elementwise import ElementwiseKernels, LongHostOps
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound


def find_cures(trace: Trace, _finding: LongHostOps | ElementwiseKernels) -> Iterable[Prescription]:
    if trace.on_jax:
        says = "put @jax.jit on the function that calls them, so that XLA compiles the chains as a whole"
        yield Prescription("edit", Effect.EQUIVALENT, says)
        return
    edits = edit_project(trace, keras_models.compile_steps_with_xla)
    where = "compile(..., jit_compile=True)" if step_bound.is_keras_step(trace) else "@tf.function(jit_compile=True)"
    says = f"{where}, so that XLA fuses the chains"
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="xla")
