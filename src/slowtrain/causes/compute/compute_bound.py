from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.figures import plain
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace, work
from slowtrain.whatif import Remedy

BUSY = 0.7  # of a step; below, something else is worth more attention
NO_LAYER = "(no layer)"
LETTERS = 40  # of an op that a compiled program names by its whole instruction


class ComputeBound(Cause):
    """The device computes for most of each step: the model's arithmetic is what the step costs.

    ## What it means
    Input arrives in time, Python keeps out of the way, and ops run nearly all the time. That is
    how a healthy run looks. There is nothing to gain around the computing, only in it.

    ## How it is recognised
    In the profiler's windows, ops run for 70 % of a step or more. The layers with the largest parts are named.

    ## What to do
    Nothing, if the model is the one you want. A faster device, mixed precision where the device
    has units for it, or a smaller model (fewer channels, smaller images, shorter sequences in the
    layers named) shorten the step.

    ## When it is not worth it
    It is no fault, and curing other causes first may change what bounds the run.
    """

    title = "The model's own computing bounds the step"
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    matters = True

    def examine(self, trace: Trace) -> Evidence | None:
        busy = trace.share(Category.DEVICE)
        if trace.kernels is None or busy < BUSY or trace.kernels.ms <= 0 or busy - _waiting(trace) < BUSY:
            return None
        layers = work.by_layer(trace.kernels)[:3]
        if trace.fact("profile") and layers and layers[0][0] == NO_LAYER:
            layers = _by_op(trace)
        said = ", ".join(f"{layer} {part:.0%}" for layer, part in layers)
        place = trace.steps.place
        return Evidence(
            f"ops compute for {plain(trace.mean(Category.DEVICE))} of each step's "
            f"{plain(trace.step_ms)} ms ({busy:.0%}); "
            f"of op time: {said}",
            {"device_ms": trace.mean(Category.DEVICE), "device_share": busy},
            (place,) if place else (),
        )

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription(
            "advice",
            Effect.CHANGES_TRAINING,
            "nothing to cure: a faster device or a smaller model would shorten the step",
        )

    fires = (
        """
        step    1111111111
        device  kkkkkkkkk.
        @kernels busy=9 ms=12 ops={"m/conv/Conv2D:Conv2D": [8, 1], "m/dense/MatMul:MatMul": [4, 2]}
        """,
        """
        step    1111111111
        device  kkkkkkkkk.
        @fact profile=true devices=[{"kind":"GPU"}]
        @device busy=9 ms=9 by={"gemm_fusion_dot_3":[8,9],"loop_add_fusion":[1,3]}
        @kernels busy=9 ms=9 ops={"gemm_fusion_dot_3:gemm_fusion_dot_3": [8, 1],
        & "loop_add_fusion:loop_add_fusion": [1, 2]}
        """,
    )
    quiet = (
        """
        step    1111111111
        input   iiiii.....
        device  .....kkkkk
        @kernels busy=5 ms=5 ops={"m/conv/Conv2D:Conv2D": [5, 1]}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @fact profile=true devices=[{"kind":"TPU"}]
        @device kind=TPU busy=10 ms=10 by={"%copy-done.2":[9,1],"%fusion.1":[1,3]}
        @kernels busy=10 ms=10 ops={"%copy-done.2:copy": [9, 1], "%fusion.1:fusion": [1, 2]}
        """,
    )


def _waiting(trace: Trace) -> float:
    """The share of a step in a compiled program's ops that wait for copies: busy, but nothing is computed."""
    return work.copy_wait_share(trace.device) * trace.share(Category.DEVICE)


def _by_op(trace: Trace) -> list[tuple[str, float]]:
    """``(op, share)`` where the profile names no layers, costliest first."""
    ops = work.ops(trace.kernels) if trace.kernels is not None else []
    total = sum(o.ms for o in ops) or 1.0
    return [(o.name.split(" ")[0][:LETTERS], o.ms / total) for o in ops[:3]]
