"""The model's own computing bounds the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound, tensor_cores
from slowtrain.whatif import Remedy

ALONE = 0.8  # of all op time is one op's
HALF = 0.5
NO_LAYER = "(no layer)"
LETTERS = 40  # of an op that a compiled program names by its whole instruction


class ComputeBound(Cause[Evidence]):
    """Computing is the largest part of each step: the model's arithmetic is what the step costs."""

    title = "The model's own computing bounds the step"
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    matters = True

    def find(self, trace: Trace) -> Evidence | None:
        busy = trace.share(Category.DEVICE)
        if trace.kernels is None or trace.kernels.ms <= 0 or _waiting(trace) > HALF * busy:
            return None
        if step_bound.largest_verdict(trace)[0] is not VerdictKind.COMPUTE:
            return None
        layers = op_work.time_share_by_layer(trace.kernels)[:3]
        if trace.fact("profile") and layers and layers[0][0] == NO_LAYER:
            layers = _by_op(trace)
        said = ", ".join(f"{layer} {part:.0%}" for layer, part in layers)
        place = trace.steps.place
        return Evidence(
            f"ops compute for {format_number(trace.mean(Category.DEVICE))} of each step's "
            f"{format_number(trace.step_ms)} ms ({busy:.0%}); "
            f"of op time: {said}",
            {"device_ms": trace.mean(Category.DEVICE), "device_share": busy},
            _where(trace) or ((place,) if place else ()),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        alone = _alone(trace)
        if alone is not None:
            says = f"nearly all of it is one op, {alone.name}: what else computes the same is worth trying"
            if "scatter" in alone.name:
                says += "; where many rows meet in few of a table, tf.one_hot and a product (keras.ops.one_hot)"
            yield Prescription("advice", Effect.EQUIVALENT, says)
            return
        if _in_tf32(trace):
            says = "products run in TF32, which 16 bits do at twice the rate with half the bytes: mixed_bfloat16"
            yield Prescription("advice", Effect.CHANGES_TRAINING, says)
            return
        says = "nothing to cure: a faster device or a smaller model would shorten the step"
        yield Prescription("advice", Effect.CHANGES_TRAINING, says)


def _waiting(trace: Trace) -> float:
    """The share of a step in a compiled program's ops that wait for copies: busy, but nothing is computed."""
    return op_work.copy_wait_share(trace.device) * trace.share(Category.DEVICE)


def _alone(trace: Trace) -> op_work.WindowOp | None:
    """The one op that takes nearly all of the time, unless it is a product or convolution: those are the model's."""
    found = op_work.window_ops(trace.kernels) if trace.kernels is not None else []
    total = sum(o.ms for o in found)
    most = max(found, key=lambda o: o.ms, default=None)
    named = most is not None and "/" in most.name and not (most.matmul or most.conv or most.update)
    return most if named and most is not None and most.ms >= ALONE * total else None


def _where(trace: Trace) -> tuple[Place, ...]:
    """The user's lines of that op, where XLA's programs tell."""
    alone = _alone(trace)
    if alone is None or trace.device is None:
        return ()
    name = f"{alone.name}:{alone.kind}"
    return tensor_cores.op_lines(trace.device, lambda op: op.partition("#")[0] == name)


def _in_tf32(trace: Trace) -> bool:
    """Whether products and convolutions take much of the step, most of them in TF32, where 16 bits are faster."""
    card, device = tensor_cores.find_card(trace), trace.device
    if device is None or card is None or card.peaks is None or not card.peaks[1] or card.peaks[2] <= card.peaks[1]:
        return False
    tf32 = device.matrix_ms.get("tf32", 0.0)
    return tf32 >= HALF * sum(device.matrix_ms.values()) and tf32 >= HALF * device.kernel_ms > 0


def _by_op(trace: Trace) -> list[tuple[str, float]]:
    """``(op, share)`` where the profile names no layers, costliest first."""
    ops = op_work.window_ops(trace.kernels) if trace.kernels is not None else []
    total = sum(o.ms for o in ops) or 1.0
    return [(o.name.split(" ")[0][:LETTERS], o.ms / total) for o in ops[:3]]
