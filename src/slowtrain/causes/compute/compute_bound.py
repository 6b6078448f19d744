from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace, work
from slowtrain.whatif import Remedy

BUSY = 0.7  # of a step; below, something else is worth more attention


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
        if trace.kernels is None or busy < BUSY or trace.kernels.ms <= 0:
            return None
        layers = work.by_layer(trace.kernels)[:3]
        said = ", ".join(f"{layer} {part:.0%}" for layer, part in layers)
        place = trace.steps.place
        return Evidence(
            f"ops compute for {trace.mean(Category.DEVICE):.3g} of each step's {trace.step_ms:.3g} ms ({busy:.0%}); "
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
    )
    quiet = (
        """
        step    1111111111
        input   iiiii.....
        device  .....kkkkk
        @kernels busy=5 ms=5 ops={"m/conv/Conv2D:Conv2D": [5, 1]}
        """,
    )
