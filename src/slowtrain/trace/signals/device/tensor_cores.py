"""A GPU's matrix units: peaks and formats of its matrix work, shapes of ops, and the rates that ops achieve.

Rates count bytes once: what an elementwise op must read and write. Therefore they are lower bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod

from msgspec import Struct

from slowtrain.columns.device import Device
from slowtrain.model import Place, Reached, Signal
from slowtrain.profile import framework_names
from slowtrain.profile.device_activity import Operand, parse_operands
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work

UNKNOWN_FORMAT = "unknown"
SIXTEEN_BIT_FORMATS = ("float16", "bfloat16")


class CardPeaks(Struct, frozen=True):
    """Dense peaks of the card ``name`` in TFLOP/s.

    ``matrix``: float32, TF32 (None: not supported), 16 bits with float32 accumulation. ``double``: float64. Matrix
    units are included if they support the format. ``read``: the source of these numbers.
    """

    name: str
    matrix: tuple[float, float | None, float]
    double: float
    read: str


# By compute capability; if its cards differ in their ratios, the one with the smallest gain. AMD's paper was read
# in a copy. NVIDIA's sheets could not be read: what ``read`` names repeats them, and was itself read on ``PEAKS_READ``.
# "Quoted" marks programs and notes that cite the paper's table, without a known address.
PEAKS_READ = "2026-11-26"
_COMPARED = "hmc-tech.com/gpu/nvidia-geforce-rtx-4090-d-vs-nvidia-geforce-rtx-3090-ti"
NVIDIA_PEAKS = {
    (7, 0): CardPeaks(
        "V100 SXM2", (15.7, None, 125.0), 7.8,
        "cvw.cac.cornell.edu/gpu-architecture/gpu-example-tesla-v100/tesla; 16 bits: "
        "developer.nvidia.com/programming-tensor-cores-cuda-9-0",
    ),
    (7, 5): CardPeaks("T4", (8.1, None, 65.0), 0.25, "sysrqmts.com/en/gpus/nvidia/tesla/t4"),
    (8, 0): CardPeaks("A100", (19.5, 156.0, 312.0), 19.5, "glennklockwood.com/garden/processors/A100"),
    # An A40 has twice and four times its float32 rate (hmc-tech.com/gpu/nvidia-l40-vs-nvidia-a40).
    (8, 6): CardPeaks(
        "RTX 3090", (35.6, 35.6, 71.0), 0.56,
        f"NVIDIA's GA102 white paper, quoted; the same ratios for a 3090 Ti at {_COMPARED}",
    ),
    # An L40S has twice and four times its float32 rate (mullet.se/product.html?product_id=355414).
    (8, 9): CardPeaks(
        "RTX 4090", (82.6, 82.6, 165.2), 1.29,
        "hmc-tech.com/gpus/nvidia-geforce-rtx-4090-vs-nvidia-rtx-pro-5000-blackwell",
    ),
    (9, 0): CardPeaks("H100 SXM", (66.9, 494.7, 989.4), 66.9, "glennklockwood.com/garden/processors/h100"),
    # The source gives the matrix units' peaks with sparsity, twice the dense ones.
    (10, 0): CardPeaks(
        "B200 of an HGX", (75.0, 1100.0, 2250.0), 37.0,
        "zdszero.github.io/Computer/Artificial_Intelligence/Hardware.html",
    ),
    (12, 0): CardPeaks(
        "RTX 5090", (104.8, 104.8, 209.5), 1.64,
        "NVIDIA's RTX Blackwell white paper, quoted; float32 and float64: "
        "fpsbench.com/compare/gpu/nvidia-geforce-rtx-4090-d-vs-nvidia-geforce-rtx-5090",
    ),
}  # fmt: skip
_CDNA_3 = "AMD CDNA 3 white paper, copy of 2025-04-09, table 1"
# Versions of CDNA: gfx90a gives 9.0, gfx942 gives 9.4. AMD's matrix units also compute in float32, at that rate.
AMD_PEAKS = {
    (9, 0): CardPeaks("MI250X", (95.7, None, 383.0), 95.7, _CDNA_3),
    # For TF32 the paper has half of the 16-bit operations per clock, but lists 490.3, the value of an MI300A.
    (9, 4): CardPeaks("MI300X", (163.4, 653.7, 1307.4), 163.4, f"{_CDNA_3}; TF32: ROCm's page on the MI300, quoted"),
}
# Share of the ratio of two peaks that products gain, by their time in the slower format (clinic/gpu/products.py). On
# an H100 squares of 4,096 and 8,192 gained 0.95 to 1.07 of it from float32 to TF32 and bfloat16 (7.4, 7.8, 13.8 and
# 15.3 times), from float64 to TF32 0.83 and 0.89, those of 2,048 (0.3 ms each) 0.89 and 0.73; those of 1,024 and less
# gained nothing: launching bounds them.
MIN_LONG_PRODUCT_MS = 0.2
LONG_GAIN_SHARE, SHORT_GAIN_SHARE = 0.85, 0.4
MAX_OP_LINES = 3


class GpuCard(Struct, frozen=True):
    """A GPU's vendor and compute capability."""

    vendor: str
    capability: tuple[int, int]

    @property
    def peaks(self) -> tuple[float, float | None, float] | None:
        """Float32, TF32 and 16-bit peaks in TFLOP/s; None without tensor cores.

        For unlisted cards those of a related one.
        """
        if (own := self._peak_table.get(self.capability)) is not None:
            return own.matrix
        kin = [row.matrix for (major, _), row in self._peak_table.items() if major == self.capability[0]]
        return min(kin, key=lambda p: p[2] / p[0], default=None)

    @property
    def double(self) -> float | None:
        """Float64 peak in TFLOP/s; None for an unlisted card."""
        own = self._peak_table.get(self.capability)
        return own.double if own is not None else None

    @property
    def _peak_table(self) -> dict[tuple[int, int], CardPeaks]:
        """The vendor's table, because NVIDIA and AMD number capabilities differently."""
        return NVIDIA_PEAKS if self.vendor == "nvidia" else AMD_PEAKS


def reached_gain_share(device: Device, format_: str) -> float:
    """Return the part of the ratio of two peaks that products in ``format_`` can be expected to gain."""
    rows = [
        (ms, ms / count) for name, (ms, count) in device.by_kernel.items()
        if count and re.search(framework_names.MATRIX_KERNEL, name)
        and framework_names.kernel_precision(name) == format_
    ]  # fmt: skip
    total = sum(ms for ms, _ in rows)
    long = sum(ms for ms, each in rows if each >= MIN_LONG_PRODUCT_MS)
    return SHORT_GAIN_SHARE + (LONG_GAIN_SHARE - SHORT_GAIN_SHARE) * (long / total if total else 0.5)


def find_card(trace: Trace) -> GpuCard | None:
    """Return the GPU that computed, from its profile or the driver; None if neither identifies it."""
    device = trace.device
    if device is None or device.kind != "GPU":
        return None
    major, minor = device.facts.get("compute_cap_major"), device.facts.get("compute_cap_minor")
    vendor = "amd" if "amd" in str(device.facts.get("device_vendor") or "").lower() else "nvidia"
    if isinstance(major, int):
        return GpuCard(vendor, (major, minor if isinstance(minor, int) else 0))
    gpus = trace.fact("machine", "gpu", "devices", default=()) or ()
    capabilities = {str(g.get("compute_capability") or "") for g in gpus}  # from NVML, so NVIDIA
    parts = capabilities.pop().split(".") if len(capabilities) == 1 else []
    return (
        GpuCard("nvidia", (int(parts[0]), int(parts[1]))) if len(parts) == 2 and all(map(str.isdigit, parts)) else None
    )


def signals_without_products(trace: Trace) -> frozenset[Signal] | None:
    """Return the signals needed to judge a device without matrix work; None if it has some."""
    device = trace.device
    if device is None or device.kind == "CPU":
        return frozenset()
    if device.kind != "GPU" or sum(device.matrix_ms.values()) > 0:
        return None
    return frozenset({Signal.MODEL}) if len(trace.steps) < 2 else frozenset()  # the end of a single step may be missing


def is_format_known(device: Device) -> bool:
    """Return whether the number format of most matrix work is known; True without matrix work."""
    total = sum(device.matrix_ms.values())
    return device.matrix_ms.get(UNKNOWN_FORMAT, 0.0) <= 0.5 * total


def op_lines(device: Device, wanted: Callable[[str], bool]) -> tuple[Place, ...]:
    """Return the user's lines of the wanted ops, costliest first, as far as XLA's programs contain them.

    Three at most.
    """
    found = (place for text in device.by_op if wanted(text) for place in device.places.get(text, ()))
    return tuple(dict.fromkeys(found))[:MAX_OP_LINES]


def profiled_ops(device: Device) -> list[tuple[op_work.WindowOp, tuple[Operand, ...]]]:
    """Return TensorFlow's ops by the time of their kernels, with their inputs as far as the profile contains them."""
    found = []
    for text, (ms, count) in device.by_op.items():
        parsed = framework_names.graph_op(text.partition("#")[0])
        if parsed is not None:
            found.append((op_work.WindowOp(parsed[0], parsed[1], ms, count), parse_operands(text)))
    return found


FORMAT_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8, "uint8": 1, "bool": 1}
MIN_RATED_TIME_SHARE = 0.05  # of the kernels' time; ops with less do not represent the device
_BANDWIDTH_FACT = "memory_bandwidth"  # of names.DEVICE_FACTS, bytes a second


def device_rates(trace: Trace) -> Iterator[Reached]:
    """Yield the memory rate of elementwise ops, and the arithmetic rate of matrix products by number format."""
    device = trace.device
    if device is None or device.kind != "GPU" or not device.kernel_ms:
        return
    moved: list[tuple[float, float]] = []
    multiplied: dict[str, list[tuple[float, float]]] = {}
    for op, inputs in profiled_ops(device):
        if op.kind in framework_names.ELEMENTWISE_OPS and (size := _elementwise_bytes(op.kind, inputs)):
            moved.append((op.ms, size * op.count))
        elif op.kind in framework_names.PRODUCT_OPS and (work := _product_operations(inputs)):
            multiplied.setdefault(inputs[0].dtype, []).append((op.ms, work * op.count))
    peak = device.facts.get(_BANDWIDTH_FACT)
    yield from _achieved_rate(device, "memory", moved, float(peak) if isinstance(peak, int | float) else None)
    card = find_card(trace)
    for dtype, rows in multiplied.items():
        yield from _achieved_rate(device, dtype, rows, _peak_operations(device, card, dtype))


def _achieved_rate(device: Device, what: str, rows: list[tuple[float, float]], peak: float | None) -> Iterator[Reached]:
    ms, count = (sum(row[i] for row in rows) for i in range(2))
    if ms >= MIN_RATED_TIME_SHARE * device.kernel_ms:
        yield Reached(what, ms, count / ms * 1e3, peak or None)


def _elementwise_bytes(kind: str, inputs: tuple[Operand, ...]) -> float:
    """Return what an elementwise op reads and writes; 0 if a shape is unknown. What a cast writes is unknown."""
    if not inputs or any(i.dtype not in FORMAT_BYTES or 0 in i.shape for i in inputs):
        return 0.0
    read = sum(prod(i.shape) * FORMAT_BYTES[i.dtype] for i in inputs)
    largest = max(inputs, key=lambda i: prod(i.shape))
    if kind.startswith("Random") or not largest.shape:
        return 0.0  # its input is a shape, its output random numbers
    each = 0 if kind == "Cast" else FORMAT_BYTES["bool" if kind in framework_names.COMPARING_OPS else largest.dtype]
    return float(read + prod(largest.shape) * each)


def _product_operations(inputs: tuple[Operand, ...]) -> float:
    """Return the multiplications and additions of a matrix product; 0 if its shapes do not fit."""
    if len(inputs) < 2 or any(len(i.shape) < 2 or 0 in i.shape for i in inputs[:2]):
        return 0.0
    a, b = inputs[0].shape, inputs[1].shape
    # Not transposed, the second transposed, the first transposed: uses the first that fits.
    inner = next((x for x, y in ((a[-1], b[-2]), (a[-1], b[-1]), (a[-2], b[-2])) if x == y), 0)
    if not inner:
        return 0.0
    times = max(prod(a[:-2]), prod(b[:-2]))
    return 2.0 * times * (a[-1] * a[-2] // inner) * inner * (b[-1] * b[-2] // inner)


def _peak_operations(device: Device, card: GpuCard | None, dtype: str) -> float | None:
    """Return the card's peak operations per second in this format; None if unknown."""
    peaks = card.peaks if card is not None else None
    if peaks is None:
        return None
    tf32 = device.matrix_ms.get("tf32", 0.0) > device.matrix_ms.get("float32", 0.0)
    table = {"float32": (tf32 and peaks[1]) or peaks[0], "float16": peaks[2], "bfloat16": peaks[2]}
    return table[dtype] * 1e12 if dtype in table else None
