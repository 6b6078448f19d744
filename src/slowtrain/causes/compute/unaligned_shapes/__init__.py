"""Channels and units that tensor cores cannot read in whole pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import prod

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.profile.device_activity import ALIGNED_ELEMENTS, Operand
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, tensor_cores
from slowtrain.trace.signals.device.tensor_cores import SIXTEEN_BIT_FORMATS
from slowtrain.whatif import Drop, Remedy

MIN_CHANNELS = 16  # fewer are those of the model's input and output (colours, classes), which nobody chooses
# Share of its time that a product keeps if its dimensions are padded. The range is from no gain, if libraries pad by
# themselves or memory bounds, to four times as fast. On an H100 whole steps of products with sides of 4,093 in 16 bits
# kept 0.27 when padded to 4,096, of 4,092 and 4,094 0.41; single products of 2,047 0.37 and of 2,046 and 2,044 0.47.
KEPT_SHARE, KEPT_SHARE_ODD, KEPT_SHARE_RANGE = 0.45, 0.33, (0.2, 0.95)
MAX_NAME_LENGTH = 80
MIN_KNOWN_SHARE = 0.5  # of the tensor-core work: its alignment has to be known to call it aligned


class UnalignedOp(Struct, frozen=True):
    """A matrix op, in ms per step. Its dimension ``size`` is no multiple of ``multiple``; 0 if it is not known."""

    name: str
    size: int
    multiple: int
    ms: float


class UnalignedOps(Struct, frozen=True):
    """The unaligned matrix ops of the step, the most expensive first."""

    ops: tuple[UnalignedOp, ...]

    @property
    def ms(self) -> float:
        return sum(op.ms for op in self.ops)

    @property
    def odd_ms(self) -> float:
        """Of the ops whose size is an odd number."""
        return sum(op.ms for op in self.ops if op.size % 2)


class UnalignedShapes(Cause[UnalignedOps]):
    """Layers whose channels or units are no multiple of 8 prevent tensor cores from reading whole pieces."""

    title = "Layer sizes are no multiple of what tensor cores read"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        wanted = tensor_cores.signals_without_products(trace)
        if device is None or wanted is not None:
            return super().wants(trace) | (wanted or frozenset())
        known = device.kind == "GPU" and tensor_cores.is_format_known(device) and _is_alignment_known(trace, device)
        return super().wants(trace) | (set() if known else {Signal.MODEL})

    def find(self, trace: Trace) -> UnalignedOps | None:
        ops = _unaligned_ops(trace, trace.device) if trace.device is not None else []
        return UnalignedOps(tuple(ops)) if ops else None

    def evidence(self, trace: Trace, finding: UnalignedOps) -> Evidence:
        ops = finding.ops
        named = ", ".join(map(_op_in_words, ops[:2]))
        more = f" and {len(ops) - 2} more" if len(ops) > 2 else ""
        device, names = trace.device, tuple(op.name for op in ops)
        return Evidence(
            f"{named}{more} take {format_number(finding.ms)} of each step's {format_number(trace.step_ms)} ms on the "
            "device",
            {
                "unaligned_ms": finding.ms,
                "unaligned_share": finding.ms / trace.step_ms if trace.step_ms else 0.0,
                "odd_ms": finding.odd_ms,
                "ops": float(len(ops)),
            },
            tensor_cores.op_lines(device, lambda op: op.startswith(names)) if device is not None else (),
        )

    def remedies(self, trace: Trace, finding: UnalignedOps) -> Sequence[Remedy]:
        ms, odd_ms = finding.ms, finding.odd_ms
        saved_ms = (1 - KEPT_SHARE) * (ms - odd_ms) + (1 - KEPT_SHARE_ODD) * odd_ms
        best, worst = ((1 - kept) * ms / saved_ms for kept in KEPT_SHARE_RANGE) if saved_ms else (1.0, 1.0)
        return [Drop({Category.DEVICE: saved_ms}, 0.0, (worst, best))]

    def cures(self, trace: Trace, finding: UnalignedOps) -> Iterable[Prescription]:
        op = finding.ops[0]
        says = "make units, channels, vocabularies and padded lengths multiples of 8"
        if op.size:
            says = f"{op.name}: {-(-op.size // 8) * 8:,} instead of {op.size:,}"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says)


def _op_in_words(op: UnalignedOp) -> str:
    why = f"{op.size:,} is no multiple" if op.size else "reads fewer elements at once than a multiple"
    return f"{op.name} ({why} of {op.multiple})"


def _needed_multiple(device: Device) -> int | None:
    """The multiple for the number format of most tensor-core work; None without such work."""
    formats = {f: device.matrix_ms.get(f, 0.0) for f in ALIGNED_ELEMENTS}
    most = max(formats, key=lambda f: formats[f])
    return ALIGNED_ELEMENTS[most] if formats[most] > 0 else None


def _unaligned_ops(trace: Trace, device: Device) -> list[UnalignedOp]:
    """The most expensive first: by the shapes of ops, by the model's weights, else by the names of kernels."""
    card = tensor_cores.find_card(trace)
    multiple = _needed_multiple(device)
    if card is None or card.peaks is None or multiple is None:
        return []
    scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
    found: dict[str, UnalignedOp] = {}
    layers = _kernel_sizes_by_layer(trace)
    for op, inputs in tensor_cores.profiled_ops(device):
        if not (op.matmul or op.conv):
            continue
        by_layer = (sizes for layer, sizes in layers.items() if f"/{layer}/" in f"/{op.name}")
        needed = 8 if any(i.dtype in SIXTEEN_BIT_FORMATS for i in inputs) else multiple
        odd = [s for s in _aligned_sizes(op, inputs) or next(by_layer, []) if s >= MIN_CHANNELS and s % needed]
        if odd:
            name = (re.sub(framework_names.PRODUCT_SCOPE, "", op.scope) or op.name)[-MAX_NAME_LENGTH:]
            ms = scale * op.ms + (found[name].ms if name in found else 0.0)
            found[name] = UnalignedOp(name, max(odd), needed, ms)
    if not found and not layers:
        found = {m.name: m for m in _unaligned_kernels(device, scale)}
    return sorted(found.values(), key=lambda m: -m.ms)


def _aligned_sizes(op: op_work.WindowOp, inputs: tuple[Operand, ...]) -> list[int]:
    """Dimensions of the op's operands that are contiguous in memory; of a convolution the channels of its filter.

    The number of a matrix's rows (the batch) does not count.
    """
    floating = [i.shape for i in inputs if i.dtype in ("float16", "bfloat16", "float32") and len(i.shape) >= 2]
    if op.conv:
        known = op.kind.startswith("Conv2D") and "Filter" not in op.kind and len(floating) == 2
        return list(floating[-1][-2:] if not op.kind.endswith("Input") else floating[0][-2:]) if known else []
    return [shape[-1] for shape in floating]


def _kernel_sizes_by_layer(trace: Trace) -> dict[str, list[int]]:
    """The last two dimensions of each layer's kernel, if the model is known."""
    found: dict[str, list[int]] = {}
    for weight in op_work.largest_model_weights(trace):
        shape = [int(d) for d in weight.get("shape") or ()]
        if len(shape) >= 2 and prod(shape) > 1 and weight.get("layer") and weight.get("class") != "Embedding":
            found.setdefault(str(weight["layer"]), shape[-2:])
    return found


def _unaligned_kernels(device: Device, scale: float) -> Iterable[UnalignedOp]:
    """Kernels that read less than 16 bytes at once."""
    for name, (ms, _) in device.by_kernel.items():
        read, format_ = re.search(framework_names.KERNEL_ALIGNMENT, name), framework_names.kernel_precision(name)
        needed = ALIGNED_ELEMENTS.get(format_ or "")
        if (
            read
            and needed
            and len(read[1]) < 4
            and int(read[1]) < needed
            and re.search(framework_names.MATRIX_KERNEL, name)
        ):
            yield UnalignedOp(name[:MAX_NAME_LENGTH], 0, needed, scale * ms)


def _is_alignment_known(trace: Trace, device: Device) -> bool:
    """Whether shapes or kernel names cover most of the tensor-core work. Without such work it is known."""
    total = sum(device.matrix_ms.get(f, 0.0) for f in ALIGNED_ELEMENTS)
    if total <= 0 or _kernel_sizes_by_layer(trace):
        return True
    shaped = sum(op.ms for op, inputs in tensor_cores.profiled_ops(device) if (op.matmul or op.conv) and inputs)
    named = sum(ms for name, (ms, _) in device.by_kernel.items()
                if re.search(framework_names.KERNEL_ALIGNMENT, name)
                and framework_names.kernel_precision(name) in ALIGNED_ELEMENTS)  # fmt: skip
    return max(shaped, named) >= MIN_KNOWN_SHARE * total or bool(_unaligned_ops(trace, device))
