"""A GPU that waits for the host to launch its kernels: what of the host's time two cures spare.

One call for many steps spares what comes with each call. XLA makes a few programs of many kernels, and spares launches.
"""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.source.cures import measured
from slowtrain.source.cures.compute import xla
from slowtrain.source.cures.host import kerascalls
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import kernel_launches
from slowtrain.trace.signals.host.host_work import step_places
from slowtrain.whatif import Drop

DOMINATES = 0.5  # of the step is the framework's work on the host
# Launched one by one, so many take the host 0.4 to 1.4 ms: as much as the call itself, and more.
MANY_KERNELS = 100
# Of such kernels what XLA leaves: of the 164 of a custom loop (six layers, Adam) its fusions leave about 50.
FUSED_LEFT = 0.3
# Both cures' worth is an estimate from profiles (docs/gpu.md says which figures were measured).
SPREAD = (0.5, 1.3)
LEAST_HOST_MS = 0.1  # of a step that is one of many in a call: its batch and its launches are the host's still
ON_DATA = "one_step_on_data"  # Keras' function for train_on_batch
FITS = ("fit", "train_on_batch")


def evidence(trace: Trace, host_ms: float) -> Evidence | None:
    """``host_ms`` of the framework in each step dominate it; None where they do not, or a call has many steps."""
    device = trace.device
    if device is None or not device.kernels or host_ms < DOMINATES * trace.step_ms:
        return None
    busy = trace.mean(Category.DEVICE)
    if busy > host_ms or device.idle.get("eager", 0.0) > device.idle.get("dispatch", 0.0):
        return None
    many, fused = many_steps_spares_ms(trace, device, host_ms), fusing_spares_ms(trace, device)
    by = "XLA launches" if kernel_launches.are_steps_xla_compiled(trace) else "the executor launches one by one"
    return Evidence(
        f"the host takes {format_number(host_ms)} of each step's {format_number(trace.step_ms)} ms to call and "
        "launch; the device "
        f"computes for {format_number(busy, 2)} ms, in {device.kernels:,.0f} kernels that {by}",
        {"step_ms": trace.step_ms, "busy_ms": busy, "host_ms": host_ms, "ops": device.kernels,
         "overhead_ms": max(many, fused), "many_steps_ms": many, "fused_ms": fused},
        () if trace.fact("profile") else step_places(trace),
    )  # fmt: skip


def many_steps_spares_ms(trace: Trace, device: Device, host_ms: float) -> float:
    """What many steps in one call spare; no more than until making input is the slower side."""
    spared = host_ms - min(kernel_launches.many_steps_host_ms(trace, device), host_ms)
    return max(min(spared, trace.step_ms - kernel_launches.batch_making_ms(trace)), 0.0)


def fusing_spares_ms(trace: Trace, device: Device) -> float:
    """What XLA spares of launches, where it has not compiled the step."""
    if kernel_launches.are_steps_xla_compiled(trace) or trace.on_jax or device.kernels < MANY_KERNELS:
        return 0.0
    spared = (1 - FUSED_LEFT) * device.kernels * kernel_launches.kernel_launch_ms(trace, device)
    return max(min(spared, trace.step_ms - kernel_launches.batch_making_ms(trace)), 0.0)


def in_fit(trace: Trace) -> bool:
    """Whether Keras makes the step's function: then its ``compile`` decides about XLA."""
    return trace.steps.source in FITS or any(name in trace.steps.source for name in framework_names.KERAS_FUNCTIONS)


def remedy(found: Evidence) -> Drop:
    spared = found.numbers["overhead_ms"]
    most = min(SPREAD[1], (found.numbers["host_ms"] - LEAST_HOST_MS) / spared) if spared else 1.0
    return Drop({Category.DISPATCH: spared}, spread=(SPREAD[0], max(most, 1.0)))


def prescribe(trace: Trace, found: Evidence) -> Iterable[Prescription]:
    """The cure that spares more first."""
    several = list(_many_steps(trace, found))
    fused = list(_fused(trace)) if found.numbers["fused_ms"] > 0 else []
    yield from [*fused, *several] if found.numbers["fused_ms"] >= found.numbers["many_steps_ms"] else [*several, *fused]


def _fused(trace: Trace) -> Iterable[Prescription]:
    fit = in_fit(trace)
    where = "compile(..., jit_compile=True)" if fit else "@tf.function(jit_compile=True)"
    edits = edit_project(trace, xla.fused_steps if fit else xla.fused_functions)
    says = f"let XLA make one program of the step's kernels: {where}"
    yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="xla" if fit else None)


def _many_steps(trace: Trace, found: Evidence) -> Iterable[Prescription]:
    if trace.steps.source == "train_on_batch" or ON_DATA in trace.steps.source:
        says = "give the data set to model.fit, with compile(..., steps_per_execution=50), in place of train_on_batch"
        yield Prescription("advice", Effect.EQUIVALENT, says)
    elif in_fit(trace):
        edits = measured.first(trace, found.where, kerascalls.several_steps)
        says = "compile(..., steps_per_execution=50)"
        yield Prescription("edit", Effect.EXACT, says, edits=edits, treatment="several-steps")
    else:
        says = "run many steps in one tf.function: for _ in tf.range(50): step(next(iterator))"
        yield Prescription("edit", Effect.EXACT, says)
