"""Matrix products in float32 or TF32 on a GPU whose tensor cores take 16 bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.compute.full_precision import late
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names, op_shapes
from slowtrain.script.locations.recorded_sources import edit_project
from slowtrain.source.cures.compute import models
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

MOSTLY = 0.5  # of the matrix work of known format: less, and the layers left in float32 were left so on purpose
TWICE = 2.0  # as fast at best is what memory bounds, for half the bytes
LEAST_GAIN = 1.5  # at which small products, which fill neither unit, end
# On an H100 two steps that compute nearly all the time went from 17.1 to 8.3 ms (products) and from 21.3 to 13.5
# (convolutions) when TF32 became mixed precision (tests/trace/recorded/times.jsonl). Small products gain less.
LEAST_TF32_GAIN = 1.1
HALF_OTHER_GAIN = 1.5  # of the second pair's other kernels, whose numbers became half as wide as well
FLOAT32, TF32 = "float32", "tf32"


@dataclass(frozen=True)
class Work:
    """Ms a step of the device in ``format``: ``matrix_ms`` bound by arithmetic, ``streamed_ms`` by memory.

    ``format`` is float32, or TF32 where most of the matrix work is in that.
    """

    format: str
    matrix_ms: float
    streamed_ms: float
    other_ms: float
    gain: float  # of the peaks, by TF32 where the card has it and does not use it, else by 16 bits
    most: float  # by 16 bits

    @property
    def least_gain(self) -> float:
        """Of products that fill neither unit: from TF32 to 16 bits next to none."""
        return LEAST_GAIN if self.format == FLOAT32 else LEAST_TF32_GAIN

    @property
    def other_gain(self) -> float:
        """Of the other kernels: TF32 leaves their numbers as they are, 16 bits do not."""
        return 1.0 if self.format == FLOAT32 else HALF_OTHER_GAIN


class FullPrecision(Cause[Evidence]):
    """Matrix products and convolutions run in float32 or TF32 on a GPU whose tensor cores take 16 bits."""

    title = "Matrix work in wider numbers than the tensor cores need"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = late.SETTING

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        wanted = tensor_cores.signals_without_products(trace)
        if device is None or wanted is not None:
            return super().wants(trace) | (wanted or frozenset())
        unknown = device.kind != "GPU" or not tensor_cores.is_format_known(device)
        unnamed = device.kind == "GPU" and tensor_cores.find_card(trace) is None
        return super().wants(trace) | ({Signal.MODEL} if unknown else set()) | ({Signal.MACHINE} if unnamed else set())

    def find(self, trace: Trace) -> Evidence | None:
        found = _work(trace)
        if found is None or trace.device is None:
            return None
        ms = found.matrix_ms + found.streamed_ms
        share = ms / trace.step_ms if trace.step_ms else 0.0
        named = "float32" if found.format == FLOAT32 else "TF32"
        by = _units(trace) if found.format == FLOAT32 else "16 bits"
        return Evidence(
            f"matrix products and convolutions take {format_number(ms)} ms of each step ({share:.0%}) in {named}; "
            f"{by} do them up to {format_number(found.most, 2)} times as fast",
            {"float32_ms": ms, "float32_share": share, "tensor_core_ms": trace.device.tensor_core_ms,
             "peak_ratio": found.most},
            tensor_cores.op_lines(trace.device, lambda op: op_shapes.product_format(op) in (FLOAT32, TF32)),
        )  # fmt: skip

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _work(trace)
        if found is None:
            return []
        reached = tensor_cores.reached_gain_share(trace.device, found.format) if trace.device is not None else 0.0
        usual = max(1 + reached * (found.gain - 1), found.least_gain)

        def saved(gain: float, streamed: float, other: float) -> float:
            return (found.matrix_ms * (1 - 1 / gain) + found.streamed_ms * (1 - 1 / streamed)
                    + found.other_ms * (1 - 1 / other))  # fmt: skip

        ms = saved(usual, LEAST_GAIN, 1 + reached * (found.other_gain - 1))
        least, most = saved(found.least_gain, 1.0, 1.0), saved(found.most, TWICE, TWICE)
        return [Drop({Category.DEVICE: ms}, 0.0, (min(least / ms, 1.0), max(most / ms, 1.0)))] if ms > 0 else []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        card = tensor_cores.find_card(trace)
        device = trace.device
        if card and card.peaks and card.peaks[1] and card.vendor == "nvidia" and device and _of(device, "tf32") <= 0:
            on = "switch TF32 on: tf.config.experimental.enable_tensor_float_32_execution(True)"
            if trace.on_jax:
                on = 'switch TF32 on: jax.config.update("jax_default_matmul_precision", "default")'
            switched = edit_project(trace, models.tensor_float)
            yield Prescription("edit" if switched else "setting", Effect.EQUIVALENT, on, edits=switched)
        format_ = "mixed_bfloat16" if card is not None and card.capability >= (8, 0) else "mixed_float16"
        says = f'keras.mixed_precision.set_global_policy("{format_}") before the model is built'
        done = edit_project(trace, lambda text: models.mixed(text, format_))
        policy = "mixed-precision" if format_ == "mixed_float16" else None
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=done, treatment=policy)


def _of(device: Device, *formats: str) -> float:
    return sum(device.matrix_ms.get(f, 0.0) for f in formats)


def _units(trace: Trace) -> str:
    card = tensor_cores.find_card(trace)
    return "16-bit matrix cores" if card is not None and card.vendor == "amd" else "the tensor cores"


def _work(trace: Trace) -> Work | None:
    """None where matrix work is not in float32, or the card has nothing faster for it."""
    device, card = trace.device, tensor_cores.find_card(trace)
    if device is None or card is None or card.peaks is None or not tensor_cores.is_format_known(device):
        return None
    known = sum(device.matrix_ms.values()) - _of(device, tensor_cores.UNKNOWN_FORMAT)
    plain, tf32, half = card.peaks
    by_tf32 = tf32 is not None and tf32 > plain
    rate, format_ = plain, FLOAT32
    if by_tf32 and tf32 is not None and _of(device, TF32) > 0 and _of(device, TF32) >= MOSTLY * known:
        rate, format_ = tf32, TF32
    wide = _of(device, format_)
    if wide <= 0 or wide < MOSTLY * known or half <= rate:
        return None
    streamed = sum(
        ms for name, (ms, _) in device.by_kernel.items()
        if framework_names.STREAMED_MATRIX_KERNEL.search(name) and framework_names.kernel_precision(name) == format_
    )  # fmt: skip
    # Kernels of several streams overlap: of the step they take what the device was busy for.
    scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
    streamed = min(streamed, wide)
    other = max(device.precision.get(FLOAT32, 0.0) - _of(device, FLOAT32), 0.0)
    if format_ == TF32:  # XLA's fusions do not name their format, which is float32 beside such products
        other = max(device.kernel_ms - sum(device.matrix_ms.values()), other)
        other = min(other, wide)  # what stands around products, not a loop beside them
    next_rate = tf32 if by_tf32 and tf32 is not None and format_ == FLOAT32 else half
    times = scale * (wide - streamed), scale * streamed, scale * other
    return Work(format_, *times, next_rate / rate, half / rate)
