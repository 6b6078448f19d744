"""Chains of elementwise ops, each of which reads and writes memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, launch_overhead
from slowtrain.causes.compute.unfused_elementwise.device_chains import ElementwiseKernels, find_elementwise_kernels
from slowtrain.causes.compute.unfused_elementwise.host_ops import LongHostOps, find_long_host_ops
from slowtrain.model import Effect, Evidence, Prescription, Signal
from slowtrain.script.fixes.models import keras_models
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy

UnfusedElementwiseFinding = LongHostOps | ElementwiseKernels


class UnfusedElementwise(Cause[UnfusedElementwiseFinding]):
    """Elementwise ops, each a pass over memory, take much of the device's time."""

    title = "Elementwise ops are not fused"
    needs = frozenset({Signal.STEPS})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        """A processor has no timeline of its own. Its ops are those of the window."""
        on_host = trace.device is None and not (trace.on_accelerator or trace.on_jax or trace.fact("profile"))
        return super().wants(trace) | {Signal.KERNELS if on_host else Signal.DEVICE}

    def find(self, trace: Trace) -> UnfusedElementwiseFinding | None:
        return find_long_host_ops(trace) if trace.device is None else find_elementwise_kernels(trace, trace.device)

    def evidence(self, trace: Trace, finding: UnfusedElementwiseFinding) -> Evidence:
        return finding.evidence(trace)

    def remedies(self, trace: Trace, finding: UnfusedElementwiseFinding) -> Sequence[Remedy]:
        return finding.remedies(trace)

    def cures(self, trace: Trace, finding: UnfusedElementwiseFinding) -> Iterable[Prescription]:
        if trace.on_jax:
            says = "put @jax.jit on the function that calls them, so that XLA compiles the chains as a whole"
            yield Prescription("edit", Effect.EQUIVALENT, says)
            return
        edits = edit_project(trace, keras_models.compile_steps_with_xla)
        where = (
            "compile(..., jit_compile=True)"
            if launch_overhead.is_keras_step(trace)
            else "@tf.function(jit_compile=True)"
        )
        says = f"{where}, so that XLA fuses the chains"
        yield Prescription("edit", Effect.EQUIVALENT, says, edits=edits, treatment="xla")
