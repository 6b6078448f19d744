"""Runs several steps in a call, or fuses their operations."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.launch_bound import LaunchFinding
from slowtrain.model import Effect, Place, Prescription
from slowtrain.script.fixes.models import keras_calls, keras_models
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound

SEVERAL_STEPS = "compile(..., steps_per_execution=50)"
STEPS_IN_FUNCTION = "run many steps in one tf.function: for _ in tf.range(50): step(next(iterator))"
TRAIN_ON_BATCH_FUNCTION = "one_step_on_data"  # Keras' function for train_on_batch


def find_cures(trace: Trace, finding: LaunchFinding) -> Iterable[Prescription]:
    if finding.overhead is not None:
        overhead = finding.overhead
        many_steps = [_many_steps_cure(trace, finding)]
        fused = [_fusing_cure(trace)] if overhead.fused_ms > 0 else []
        yield from [*fused, *many_steps] if overhead.fused_ms >= overhead.many_steps_ms else [*many_steps, *fused]
    elif finding.in_gaps:
        if not step_bound.are_steps_xla_compiled(trace):
            fuse = "compile the whole step with XLA (jit_compile=True; in JAX one jax.jit around it): fewer kernels"
            yield Prescription("edit", Effect.EQUIVALENT, fuse)
        if not trace.on_jax:
            says = f"in Keras, {SEVERAL_STEPS}"
            yield Prescription("edit", Effect.EXACT, says, treatment="several-steps")
    elif trace.on_jax:
        # Keras' steps_per_execution is a loop in Python on this backend.
        says = "run many steps in one call, a jax.lax.scan over stacked batches; or give each step more to do"
        yield Prescription("advice", Effect.EXACT, says)
    elif trace.steps.source == "fit":
        yield several_steps_cure(trace, finding.evidence.where)
    else:
        yield Prescription("edit", Effect.EXACT, STEPS_IN_FUNCTION)


def _fusing_cure(trace: Trace) -> Prescription:
    by_keras = step_bound.is_keras_step(trace)
    where = "compile(..., jit_compile=True)" if by_keras else "@tf.function(jit_compile=True)"
    edits = edit_project(
        trace, keras_models.compile_steps_with_xla if by_keras else keras_models.compile_functions_with_xla
    )
    says = f"let XLA make one program of the step's kernels: {where}"
    return Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="xla" if by_keras else None)


def _many_steps_cure(trace: Trace, finding: LaunchFinding) -> Prescription:
    if trace.steps.source == "train_on_batch" or TRAIN_ON_BATCH_FUNCTION in trace.steps.source:
        says = f"give the data set to model.fit, with {SEVERAL_STEPS}, in place of train_on_batch"
        return Prescription("advice", Effect.EQUIVALENT, says)
    if step_bound.is_keras_step(trace):
        return several_steps_cure(trace, finding.evidence.where)
    return Prescription("edit", Effect.EXACT, STEPS_IN_FUNCTION)


def several_steps_cure(trace: Trace, places: tuple[Place, ...]) -> Prescription:
    """Several steps of ``fit`` in a call, by ``compile`` at one of ``places``."""
    edits = recorded_edits.first_applicable(trace, places, keras_calls.run_several_steps_per_call)
    return Prescription("edit", Effect.EXACT, SEVERAL_STEPS, edits=edits, treatment="several-steps")
