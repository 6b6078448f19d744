"""Channels and units that tensor cores cannot read in whole pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from slowtrain.causes import Cause
from slowtrain.columns.device import Device
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.profile.op_shapes import ALIGNED_ELEMENTS, Operand
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, tensor_cores
from slowtrain.trace.signals.device.tensor_cores import SIXTEEN_BIT_FORMATS
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

# Fewer channels than this are what goes in and comes out (colours, classes), which nobody chooses.
LEAST_CHANNELS = 16
# Of its time a product keeps when its dimensions are padded: between nothing gained, where libraries pad by themselves
# or memory bounds, and four times as fast. On an H100 whole steps of products with sides of 4,093 in 16 bits kept 0.27
# when padded to 4,096, of 4,092 and 4,094 0.41; single products of 2,047 0.37 and of 2,046 and 2,044 0.47.
KEPT, KEPT_ODD, KEPT_RANGE = 0.45, 0.33, (0.2, 0.95)
LETTERS = 80  # of a name
MOSTLY = 0.5  # of the tensor-core work whose alignment must be known to say that it is in order


@dataclass(frozen=True)
class Misfit:
    """A matrix op, ms a step: ``size`` is its dimension that is no multiple of ``multiple``, 0 where it is not told."""

    name: str
    size: int
    multiple: int
    ms: float


class UnalignedShapes(Cause[Evidence]):
    """Layers whose channels or units are no multiple of 8 keep the tensor cores from reading them in whole pieces."""

    title = "Shapes that miss the tensor cores' multiples"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        wanted = tensor_cores.signals_without_products(trace)
        if device is None or wanted is not None:
            return super().wants(trace) | (wanted or frozenset())
        known = device.kind == "GPU" and tensor_cores.is_format_known(device) and _alignment_known(trace, device)
        return super().wants(trace) | (set() if known else {Signal.MODEL})

    def find(self, trace: Trace) -> Evidence | None:
        device = trace.device
        found = _misfits(trace, device) if device is not None else []
        if not found or device is None:
            return None
        ms = sum(m.ms for m in found)
        said = ", ".join(map(_said, found[:2]))
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        return Evidence(
            f"{said}{more} take {format_number(ms)} of each step's {format_number(trace.step_ms)} ms on the device",
            {"unaligned_ms": ms, "unaligned_share": ms / trace.step_ms if trace.step_ms else 0.0,
             "odd_ms": sum(m.ms for m in found if m.size % 2), "ops": float(len(found))},
            tensor_cores.op_lines(device, lambda op: any(op.startswith(m.name) for m in found)),
        )  # fmt: skip

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        ms, odd = evidence.numbers["unaligned_ms"], evidence.numbers["odd_ms"]
        saved = (1 - KEPT) * (ms - odd) + (1 - KEPT_ODD) * odd
        best, worst = ((1 - k) * ms / saved for k in KEPT_RANGE) if saved else (1.0, 1.0)
        return [Drop({Category.DEVICE: saved}, 0.0, (worst, best))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        device = trace.device
        found = _misfits(trace, device) if device is not None else []
        if found and found[0].size:
            one = found[0]
            up = -(-one.size // 8) * 8
            yield Prescription("edit", Effect.CHANGES_TRAINING, f"{one.name}: {up:,} instead of {one.size:,}")
        else:
            says = "make units, channels, vocabularies and padded lengths multiples of 8"
            yield Prescription("edit", Effect.CHANGES_TRAINING, says)


def _said(misfit: Misfit) -> str:
    why = f"{misfit.size:,} is no multiple" if misfit.size else "reads fewer elements at once than a multiple"
    return f"{misfit.name} ({why} of {misfit.multiple})"


def _in_use(device: Device) -> int | None:
    """The multiple that counts for the number format that most tensor-core work has; None where it has none such."""
    formats = {f: device.matrix_ms.get(f, 0.0) for f in ALIGNED_ELEMENTS}
    most = max(formats, key=lambda f: formats[f])
    return ALIGNED_ELEMENTS[most] if formats[most] > 0 else None


def _misfits(trace: Trace, device: Device) -> list[Misfit]:
    """Costliest first: by the shapes of ops, by the model's weights, else by what kernels are called."""
    card = tensor_cores.find_card(trace)
    multiple = _in_use(device)
    if card is None or card.peaks is None or multiple is None:
        return []
    scale = min(trace.mean(Category.DEVICE) / device.kernel_ms, 1.0) if device.kernel_ms else 1.0
    found: dict[str, Misfit] = {}
    layers = _layers(trace)
    for op, inputs in tensor_cores.profiled_ops(device):
        if not (op.matmul or op.conv):
            continue
        by_layer = (sizes for layer, sizes in layers.items() if f"/{layer}/" in f"/{op.name}")
        needed = 8 if any(i.dtype in SIXTEEN_BIT_FORMATS for i in inputs) else multiple
        odd = [s for s in _sizes(op, inputs) or next(by_layer, []) if s >= LEAST_CHANNELS and s % needed]
        if odd:
            name = (framework_names.PRODUCT_SCOPE.sub("", op.scope) or op.name)[-LETTERS:]
            ms = scale * op.ms + (found[name].ms if name in found else 0.0)
            found[name] = Misfit(name, max(odd), needed, ms)
    if not found and not layers:
        found = {m.name: m for m in _by_kernels(device, scale)}
    return sorted(found.values(), key=lambda m: -m.ms)


def _sizes(op: op_work.WindowOp, inputs: tuple[Operand, ...]) -> list[int]:
    """Dimensions that lie side by side in memory in the op's operands; of a convolution its filter's channels.

    Rows of a matrix (the batch) may have any number.
    """
    floating = [i.shape for i in inputs if i.dtype in ("float16", "bfloat16", "float32") and len(i.shape) >= 2]
    if op.conv:
        known = op.kind.startswith("Conv2D") and "Filter" not in op.kind and len(floating) == 2
        return list(floating[-1][-2:] if not op.kind.endswith("Input") else floating[0][-2:]) if known else []
    return [shape[-1] for shape in floating]


def _layers(trace: Trace) -> dict[str, list[int]]:
    """The last two dimensions of each layer's kernel, where the model told."""
    found: dict[str, list[int]] = {}
    for weight in op_work.largest_model_weights(trace):
        shape = [int(d) for d in weight.get("shape") or ()]
        if len(shape) >= 2 and prod(shape) > 1 and weight.get("layer") and weight.get("class") != "Embedding":
            found.setdefault(str(weight["layer"]), shape[-2:])
    return found


def _by_kernels(device: Device, scale: float) -> Iterable[Misfit]:
    """Kernels that read fewer elements at once than make 16 bytes."""
    for name, (ms, _) in device.by_kernel.items():
        read, format_ = framework_names.KERNEL_ALIGNMENT.search(name), framework_names.kernel_precision(name)
        needed = ALIGNED_ELEMENTS.get(format_ or "")
        if (
            read
            and needed
            and len(read[1]) < 4
            and int(read[1]) < needed
            and framework_names.MATRIX_KERNEL.search(name)
        ):
            yield Misfit(name[:LETTERS], 0, needed, scale * ms)


def _alignment_known(trace: Trace, device: Device) -> bool:
    """Whether shapes or kernels' names tell of most of the tensor-core work; of none there is nothing to know."""
    total = sum(device.matrix_ms.get(f, 0.0) for f in ALIGNED_ELEMENTS)
    if total <= 0 or _layers(trace):
        return True
    shaped = sum(op.ms for op, inputs in tensor_cores.profiled_ops(device) if (op.matmul or op.conv) and inputs)
    named = sum(ms for name, (ms, _) in device.by_kernel.items()
                if framework_names.KERNEL_ALIGNMENT.search(name)
                and framework_names.kernel_precision(name) in ALIGNED_ELEMENTS)  # fmt: skip
    return max(shaped, named) >= MOSTLY * total or bool(_misfits(trace, device))
