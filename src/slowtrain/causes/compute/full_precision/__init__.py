"""Matrix products in float32 or TF32 on a GPU whose tensor cores take 16 bits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import device_activity, framework_names
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.whatif import Drop, Remedy

MIN_WIDE_SHARE = 0.5  # of the matrix work of known format: with less, the layers in float32 are in it on purpose
MAX_STREAMED_GAIN = 2.0  # of kernels that memory bounds: half the bytes
MIN_FLOAT32_GAIN = 1.5  # of small products, which neither arithmetic nor memory bounds
# On an H100 two steps that compute nearly all the time went from 17.1 to 8.3 ms (products) and from 21.3 to 13.5
# (convolutions) when TF32 became mixed precision (tests/trace/recorded/times.jsonl). Small products gain less.
MIN_TF32_GAIN = 1.1
OTHER_KERNELS_GAIN = 1.5  # of the other kernels of the second step, whose numbers also became half as wide
FLOAT32, TF32 = "float32", "tf32"


class WideMatrixWork(Struct, frozen=True):
    """Device time per step in ``format``: ``matrix_ms`` bound by arithmetic, ``streamed_ms`` by memory.

    ``format`` is float32, or TF32 if most of the matrix work is in TF32. ``gain``: the ratio of the peaks, of TF32 if
    the card has it and does not use it, else of 16 bits. ``max_gain``: of 16 bits.
    """

    format: str
    matrix_ms: float
    streamed_ms: float
    other_ms: float
    gain: float
    max_gain: float
    tensor_core_ms: float
    where: tuple[Place, ...]

    @property
    def min_gain(self) -> float:
        """Of small products, which neither arithmetic nor memory bounds. TF32 gains next to nothing from 16 bits."""
        return MIN_FLOAT32_GAIN if self.format == FLOAT32 else MIN_TF32_GAIN

    @property
    def other_gain(self) -> float:
        """Of the other kernels. TF32 does not change their numbers, 16 bits do."""
        return 1.0 if self.format == FLOAT32 else OTHER_KERNELS_GAIN

    def saved_ms(self, gain: float, streamed_gain: float, other_gain: float) -> float:
        """What the three parts save if they become so many times as fast."""
        return (
            self.matrix_ms * (1 - 1 / gain)
            + self.streamed_ms * (1 - 1 / streamed_gain)
            + self.other_ms * (1 - 1 / other_gain)
        )


class FullPrecision(Cause[WideMatrixWork]):
    """Matrix products and convolutions run in float32 or TF32 on a GPU whose tensor cores take 16 bits."""

    title = "Matrix products use wider numbers than the tensor cores need"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})
    words = ("set_global_policy", "set_dtype_policy", "set_policy")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        wanted = tensor_cores.signals_without_products(trace)
        if device is None or wanted is not None:
            return super().wants(trace) | (wanted or frozenset())
        unknown = device.kind != "GPU" or not tensor_cores.is_format_known(device)
        unnamed = device.kind == "GPU" and tensor_cores.find_card(trace) is None
        return super().wants(trace) | ({Signal.MODEL} if unknown else set()) | ({Signal.MACHINE} if unnamed else set())

    def find(self, trace: Trace) -> WideMatrixWork | None:
        return _wide_matrix_work(trace)

    def evidence(self, trace: Trace, finding: WideMatrixWork) -> Evidence:
        ms = finding.matrix_ms + finding.streamed_ms
        share = ms / trace.step_ms if trace.step_ms else 0.0
        format_ = "float32" if finding.format == FLOAT32 else "TF32"
        units = _matrix_units(trace) if finding.format == FLOAT32 else "16 bits"
        return Evidence(
            f"matrix products and convolutions take {format_number(ms)} ms of each step ({share:.0%}) in {format_}; "
            f"{units} compute them up to {format_number(finding.max_gain, 2)} times as fast",
            {
                "float32_ms": ms,
                "float32_share": share,
                "tensor_core_ms": finding.tensor_core_ms,
                "peak_ratio": finding.max_gain,
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: WideMatrixWork) -> Sequence[Remedy]:
        reached = tensor_cores.reached_gain_share(trace.device, finding.format) if trace.device is not None else 0.0
        gain = max(1 + reached * (finding.gain - 1), finding.min_gain)
        ms = finding.saved_ms(gain, MIN_FLOAT32_GAIN, 1 + reached * (finding.other_gain - 1))
        least = finding.saved_ms(finding.min_gain, 1.0, 1.0)
        most = finding.saved_ms(finding.max_gain, MAX_STREAMED_GAIN, MAX_STREAMED_GAIN)
        return [Drop({Category.DEVICE: ms}, 0.0, (min(least / ms, 1.0), max(most / ms, 1.0)))] if ms > 0 else []


def _matrix_ms(device: Device, format_: str) -> float:
    return device.matrix_ms.get(format_, 0.0)


def _matrix_units(trace: Trace) -> str:
    card = tensor_cores.find_card(trace)
    return "16-bit matrix cores" if card is not None and card.vendor == "amd" else "the tensor cores"


def _wide_matrix_work(trace: Trace) -> WideMatrixWork | None:
    """None if matrix work is not in float32 or TF32, or if the card has no faster format."""
    device, card = trace.device, tensor_cores.find_card(trace)
    if device is None or card is None or card.peaks is None or not tensor_cores.is_format_known(device):
        return None
    known = sum(device.matrix_ms.values()) - _matrix_ms(device, tensor_cores.UNKNOWN_FORMAT)
    plain, tf32, half = card.peaks
    by_tf32 = tf32 is not None and tf32 > plain
    rate, format_ = plain, FLOAT32
    if (
        by_tf32
        and tf32 is not None
        and _matrix_ms(device, TF32) > 0
        and _matrix_ms(device, TF32) >= MIN_WIDE_SHARE * known
    ):
        rate, format_ = tf32, TF32
    wide = _matrix_ms(device, format_)
    if wide <= 0 or wide < MIN_WIDE_SHARE * known or half <= rate:
        return None
    streamed = sum(
        ms for name, (ms, _) in device.by_kernel.items()
        if re.search(framework_names.STREAMED_MATRIX_KERNEL, name) and framework_names.kernel_precision(name) == format_
    )  # fmt: skip
    # Kernels of several streams overlap. Of the step they take the time that the device was busy.
    scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
    streamed = min(streamed, wide)
    other = max(device.precision.get(FLOAT32, 0.0) - _matrix_ms(device, FLOAT32), 0.0)
    if format_ == TF32:  # XLA's fusions do not name their format, which is float32 next to such products
        other = max(device.kernel_ms - sum(device.matrix_ms.values()), other)
        other = min(other, wide)  # what surrounds the products, not a separate loop
    next_rate = tf32 if by_tf32 and tf32 is not None and format_ == FLOAT32 else half
    times = scale * (wide - streamed), scale * streamed, scale * other
    where = tensor_cores.op_lines(device, lambda op: device_activity.product_format(op) in (FLOAT32, TF32))
    return WideMatrixWork(format_, *times, next_rate / rate, half / rate, device.tensor_core_ms, where)
