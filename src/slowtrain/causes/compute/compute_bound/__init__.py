"""The model's own arithmetic bounds the step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound, tensor_cores
from slowtrain.whatif import Remedy

MIN_SINGLE_OP_SHARE = 0.8  # of all op time
MIN_TF32_SHARE = 0.5  # of the matrix work, and of the kernels' time
MAX_COPY_WAIT_SHARE = 0.5  # of the time that the device is busy
NO_LAYER = "(no layer)"
MAX_NAME_LENGTH = 40  # of an op, which a compiled program names by its whole instruction


class ComputingTime(Struct, frozen=True):
    """``parts``: the layers or ops with most of the op time, and their shares of it.

    ``single_op``: the op that takes nearly all of it, if there is one.
    """

    ms: float
    share: float
    parts: tuple[tuple[str, float], ...]
    single_op: op_work.WindowOp | None


class ComputeBound(Cause[ComputingTime]):
    """Computing is the largest part of each step."""

    title = "The model's own computing bounds the step"
    needs = frozenset({Signal.STEPS, Signal.KERNELS})
    matters = True

    def find(self, trace: Trace) -> ComputingTime | None:
        busy = trace.share(Category.DEVICE)
        if trace.kernels is None or trace.kernels.ms <= 0:
            return None
        if op_work.copy_wait_share(trace.device) > MAX_COPY_WAIT_SHARE:
            return None  # busy with ops of a compiled program that wait for copies
        if step_bound.largest_verdict(trace)[0] is not VerdictKind.COMPUTE:
            return None
        ops = op_work.window_ops(trace.kernels)
        parts = op_work.time_share_by_layer(trace.kernels)[:3]
        if trace.fact("profile") and parts and parts[0][0] == NO_LAYER:
            parts = _time_share_by_op(ops)
        return ComputingTime(trace.mean(Category.DEVICE), busy, tuple(parts), _single_op(ops))

    def evidence(self, trace: Trace, finding: ComputingTime) -> Evidence:
        parts = ", ".join(f"{name} {share:.0%}" for name, share in finding.parts)
        place = trace.steps.place
        return Evidence(
            f"ops compute for {format_number(finding.ms)} of each step's {format_number(trace.step_ms)} ms "
            f"({finding.share:.0%}); of op time: {parts}",
            {"device_ms": finding.ms, "device_share": finding.share},
            _op_places(trace, finding.single_op) or ((place,) if place else ()),
        )

    def remedies(self, trace: Trace, finding: ComputingTime) -> Sequence[Remedy]:
        return []

    def cures(self, trace: Trace, finding: ComputingTime) -> Iterable[Prescription]:
        op, effect = finding.single_op, Effect.CHANGES_TRAINING
        if op is not None:
            effect = Effect.EQUIVALENT
            says = f"nearly all of it is one op, {op.name}: try another op that computes the same"
            if "scatter" in op.name:
                says += "; if many rows go to few rows of a table, tf.one_hot and a product (keras.ops.one_hot)"
        elif _uses_tf32(trace):
            says = "products run in TF32; 16 bits (mixed_bfloat16) have twice the rate and half the bytes"
        else:
            says = "nothing to cure: a faster device or a smaller model would shorten the step"
        yield Prescription("advice", effect, says)


def _single_op(ops: Sequence[op_work.WindowOp]) -> op_work.WindowOp | None:
    """The op that takes nearly all of the time, unless it is a product, a convolution or an update of weights."""
    op = max(ops, key=lambda o: o.ms, default=None)
    if op is None or "/" not in op.name or op.matmul or op.conv or op.update:
        return None
    return op if op.ms >= MIN_SINGLE_OP_SHARE * sum(o.ms for o in ops) else None


def _op_places(trace: Trace, op: op_work.WindowOp | None) -> tuple[Place, ...]:
    """The user's lines of an op, if XLA's programs name them."""
    if op is None or trace.device is None:
        return ()
    name = f"{op.name}:{op.kind}"
    return tensor_cores.op_lines(trace.device, lambda text: text.partition("#")[0] == name)


def _uses_tf32(trace: Trace) -> bool:
    """Whether products and convolutions take much of the step, most of them in TF32, and 16 bits are faster."""
    card, device = tensor_cores.find_card(trace), trace.device
    if device is None or card is None or card.peaks is None or not card.peaks[1] or card.peaks[2] <= card.peaks[1]:
        return False
    tf32 = device.matrix_ms.get("tf32", 0.0)
    return tf32 >= MIN_TF32_SHARE * sum(device.matrix_ms.values()) and tf32 >= MIN_TF32_SHARE * device.kernel_ms > 0


def _time_share_by_op(ops: Sequence[op_work.WindowOp]) -> list[tuple[str, float]]:
    """The first ops and their shares, if the profile names no layers."""
    total = sum(o.ms for o in ops) or 1.0
    return [(o.name.split(" ")[0][:MAX_NAME_LENGTH], o.ms / total) for o in ops[:3]]
