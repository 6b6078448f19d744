"""A GPU that waits for the host to launch its kernels, and what two cures save of the host's time.

One call for many steps saves the cost of each call. XLA makes few programs of many kernels, and saves launches.
"""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.fixes.models import keras_calls, keras_models
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import step_bound
from slowtrain.trace.signals.host.host_work import step_places
from slowtrain.whatif import Drop

MIN_HOST_SHARE = 0.5  # of the step, in the framework's work on the host
# Launching so many one by one takes the host 0.4 to 1.4 ms, at least as much as the call itself.
MIN_FUSED_KERNELS = 100
# Share of such kernels that XLA leaves: of the 164 of a custom loop (six layers, Adam) about 50 are left.
FUSED_KERNEL_SHARE = 0.3
# The savings of both cures are estimates from profiles (docs/gpu.md says which figures were measured).
SAVING_SPREAD = (0.5, 1.3)
MIN_HOST_MS = 0.1  # of a step that is one of many in a call: the host still makes its batch and launches it
TRAIN_ON_BATCH_FUNCTION = "one_step_on_data"  # Keras' function for train_on_batch
KERAS_SOURCES = ("fit", "train_on_batch")


def find_overhead(trace: Trace, host_ms: float) -> Evidence | None:
    """``host_ms`` of the framework are most of each step; None if they are not, or if a call has many steps."""
    device = trace.device
    if device is None or not device.kernels or host_ms < MIN_HOST_SHARE * trace.step_ms:
        return None
    busy = trace.mean(Category.DEVICE)
    if busy > host_ms or device.idle.get("eager", 0.0) > device.idle.get("dispatch", 0.0):
        return None
    many, fused = saved_by_many_steps_ms(trace, device, host_ms), saved_by_fusing_ms(trace, device)
    by = "XLA launches" if step_bound.are_steps_xla_compiled(trace) else "the executor launches one by one"
    return Evidence(
        f"the host takes {format_number(host_ms)} of each step's {format_number(trace.step_ms)} ms to call and "
        "launch; the device "
        f"computes for {format_number(busy, 2)} ms, in {device.kernels:,.0f} kernels that {by}",
        {"step_ms": trace.step_ms, "busy_ms": busy, "host_ms": host_ms, "ops": device.kernels,
         "overhead_ms": max(many, fused), "many_steps_ms": many, "fused_ms": fused},
        () if trace.fact("profile") else step_places(trace),
    )  # fmt: skip


def saved_by_many_steps_ms(trace: Trace, device: Device, host_ms: float) -> float:
    """What many steps in one call save, until making input is slower."""
    saved = host_ms - min(step_bound.many_steps_host_ms(trace, device), host_ms)
    return max(min(saved, trace.step_ms - step_bound.batch_making_ms(trace)), 0.0)


def saved_by_fusing_ms(trace: Trace, device: Device) -> float:
    """What XLA saves of launches, if it has not compiled the step."""
    if step_bound.are_steps_xla_compiled(trace) or trace.on_jax or device.kernels < MIN_FUSED_KERNELS:
        return 0.0
    saved = (1 - FUSED_KERNEL_SHARE) * device.kernels * step_bound.kernel_launch_ms(trace, device)
    return max(min(saved, trace.step_ms - step_bound.batch_making_ms(trace)), 0.0)


def is_keras_step(trace: Trace) -> bool:
    """Whether Keras makes the step's function, so that its ``compile`` decides about XLA."""
    return trace.steps.source in KERAS_SOURCES or any(
        name in trace.steps.source for name in framework_names.KERAS_FUNCTIONS
    )


def overhead_remedy(evidence: Evidence) -> Drop:
    saved = evidence.numbers["overhead_ms"]
    most = min(SAVING_SPREAD[1], (evidence.numbers["host_ms"] - MIN_HOST_MS) / saved) if saved else 1.0
    return Drop({Category.DISPATCH: saved}, spread=(SAVING_SPREAD[0], max(most, 1.0)))


def overhead_cures(trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
    """The cure that saves more comes first."""
    several = list(_many_steps_cures(trace, evidence))
    fused = list(_fusing_cures(trace)) if evidence.numbers["fused_ms"] > 0 else []
    yield from (
        [*fused, *several] if evidence.numbers["fused_ms"] >= evidence.numbers["many_steps_ms"] else [*several, *fused]
    )


def _fusing_cures(trace: Trace) -> Iterable[Prescription]:
    fit = is_keras_step(trace)
    where = "compile(..., jit_compile=True)" if fit else "@tf.function(jit_compile=True)"
    edits = edit_project(trace, keras_models.compile_steps_with_xla if fit else keras_models.compile_functions_with_xla)
    says = f"let XLA make one program of the step's kernels: {where}"
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="xla" if fit else None)


def _many_steps_cures(trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
    if trace.steps.source == "train_on_batch" or TRAIN_ON_BATCH_FUNCTION in trace.steps.source:
        says = "give the data set to model.fit, with compile(..., steps_per_execution=50), in place of train_on_batch"
        yield Prescription("advice", Effect.EQUIVALENT, says)
    elif is_keras_step(trace):
        edits = recorded_edits.first_applicable(trace, evidence.where, keras_calls.run_several_steps_per_call)
        says = "compile(..., steps_per_execution=50)"
        yield Prescription("edit", Effect.EXACT, says, edits=edits, treatment="several-steps")
    else:
        says = "run many steps in one tf.function: for _ in tf.range(50): step(next(iterator))"
        yield Prescription("edit", Effect.EXACT, says)
