"""Rates that a device's ops achieve relative to the card's peaks, if the profile gives their input shapes.

Bytes count once: what an elementwise op must read and write. Therefore the rate is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from slowtrain.columns.device import Device
from slowtrain.model import Reached
from slowtrain.profile import framework_names
from slowtrain.profile.op_shapes import Operand
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores

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
    for op, inputs in tensor_cores.profiled_ops(device):
        if op.kind in framework_names.ELEMENTWISE_OPS and (size := _elementwise_bytes(op.kind, inputs)):
            moved.append((op.ms, size * op.count))
        elif op.kind in framework_names.PRODUCT_OPS and (work := _product_operations(inputs)):
            multiplied.setdefault(inputs[0].dtype, []).append((op.ms, work * op.count))
    peak = device.facts.get(_BANDWIDTH_FACT)
    yield from _achieved_rate(device, "memory", moved, float(peak) if isinstance(peak, int | float) else None)
    card = tensor_cores.find_card(trace)
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


def _peak_operations(device: Device, card: tensor_cores.GpuCard | None, dtype: str) -> float | None:
    """Return the card's peak operations per second in this format; None if unknown."""
    peaks = card.peaks if card is not None else None
    if peaks is None:
        return None
    tf32 = device.matrix_ms.get("tf32", 0.0) > device.matrix_ms.get("float32", 0.0)
    table = {"float32": (tf32 and peaks[1]) or peaks[0], "float16": peaks[2], "bfloat16": peaks[2]}
    return table[dtype] * 1e12 if dtype in table else None
