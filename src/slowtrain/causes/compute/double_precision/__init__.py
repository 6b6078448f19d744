"""The model computes in double precision."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import device_activity
from slowtrain.script.locations import source_places
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, tensor_cores
from slowtrain.whatif import Drop, Remedy

# How many times as long an op takes in float64, measured on two AVX-512 cores with TensorFlow 2.21, interleaved: matrix
# products of 64 to 256 a side 2 to 3, of 512 and more 3.4 to 17, convolutions 2.4 to 6.7 (float32 runs in oneDNN,
# float64 in Eigen), other ops 1 to 2 (twice the bytes). Whole steps gain less than their products alone, whose operands
# were in the cache: pairs of scripts took 1.7 to 2.5 times as long. The constants are therefore at the lower end.
# GPUs of data centers do half as many float64 operations, others 1 in 32 to 64.
PRODUCT_SLOWDOWN, CONVOLUTION_SLOWDOWN, OTHER_SLOWDOWN = 3.0, 4.0, 1.5
ACCELERATOR_SLOWDOWN = 2.0
UNPROFILED_COMPUTING_SHARE = 0.6  # of a step without a window, assumed
UNPROFILED_MATRIX_SHARE = 0.8  # of op time without a window, assumed
MIN_DOUBLE_SHARE = 0.5  # of the matrix ops, or of the weights: fewer are a deliberate exception
JAX_DOUBLE_SETTING = "jax_enable_x64"


class DoublePrecisionWork(Struct, frozen=True):
    """Computing in float64 takes ``ms`` per step. ``double_share``: of the matrix ops, or of the weights.

    ``product_share`` and ``convolution_share``: of op time.
    """

    says: str
    double_share: float
    ms: float
    product_share: float
    convolution_share: float
    where: tuple[Place, ...]


class DoublePrecision(Cause[DoublePrecisionWork]):
    """The model computes in float64, at several times the cost of float32."""

    title = "The model computes in double precision"
    worth_if = "computing takes most of a step"
    needs = frozenset({Signal.STEPS})
    words = ("float64", "GradientTape")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        # Without matrix work float64 slows little on a GPU. The kernel names of other devices do not show a format.
        device = trace.device
        known = device is not None and device.kind == "GPU" and tensor_cores.is_format_known(device)
        return self.needs | ({Signal.DEVICE} if known else {Signal.MODEL})

    def find(self, trace: Trace) -> DoublePrecisionWork | None:
        if trace.fact("profile"):
            return _double_kernels(trace)
        counts: dict[str, int] = {}
        for graph in op_work.training_graphs(trace):
            for dtype, count in graph.get("matrix", {}).items():
                counts[dtype] = counts.get(dtype, 0) + int(count)
        weights = op_work.largest_model_weights(trace)
        if not counts and not weights:  # a custom loop on JAX: the kernels of a window show it
            found = _double_kernels(trace)
            if found is None:
                return None
            return replace(found, where=source_places.merge_places(_jax_setting_places(trace), found.where))
        if counts:
            double, total, what = counts.get("float64", 0), sum(counts.values()), "matrix products and convolutions"
        else:
            double = sum(int(w["size"]) for w in weights if w.get("dtype") == "float64")
            total, what = sum(int(w["size"]) for w in weights), "weights"
        if not double or double < MIN_DOUBLE_SHARE * total:
            return None
        ms = _computing_ms(trace)
        found = DoublePrecisionWork(
            f"{double:,} of {total:,} {what} are float64; computing takes {format_number(ms)} ms of each step",
            double / total,
            ms,
            _product_share(trace),
            _convolution_share(trace),
            _matrix_op_places(trace),
        )
        # Lines that make numbers of double precision. What is computed with them becomes as wide.
        seen = source_places.project_places(trace, lambda source: [spot.start[0] for spot in self.spot(source)])
        lines = (seen or self.lines_to_change(trace, found))[:2]
        return replace(found, where=source_places.merge_places(lines, found.where))

    def evidence(self, trace: Trace, finding: DoublePrecisionWork) -> Evidence:
        return Evidence(
            finding.says,
            {
                "float64_share": finding.double_share,
                "device_ms": finding.ms,
                "matmul_share": finding.product_share,
                "conv_share": finding.convolution_share,
            },
            finding.where,
        )

    def remedies(self, trace: Trace, finding: DoublePrecisionWork) -> Sequence[Remedy]:
        if trace.on_accelerator:
            kept = _kept_share_by_card(trace)
            if kept is not None:
                return [_computing_drop(trace, finding.ms * (1 - kept), (0.6, 1.1))]
            return [_computing_drop(trace, finding.ms * (1 - 1 / ACCELERATOR_SLOWDOWN), (0.6, 1.9))]
        products, convolutions = finding.product_share, finding.convolution_share
        kept = (
            products / PRODUCT_SLOWDOWN
            + convolutions / CONVOLUTION_SLOWDOWN
            + (1 - products - convolutions) / OTHER_SLOWDOWN
        )
        return [_computing_drop(trace, finding.ms * (1 - kept), (0.7, 1.25))]


def _jax_setting_places(trace: Trace) -> tuple[Place, ...]:
    """Lines that let JAX compute in double precision wherever NumPy does."""

    def lines(source: Source) -> list[int]:
        calls = (n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and len(n.args) > 1)
        return [
            call.lineno
            for call in calls
            if getattr(call.args[0], "value", "") == JAX_DOUBLE_SETTING and getattr(call.args[1], "value", 0)
        ]

    return source_places.project_places(trace, lines)


def _double_kernels(trace: Trace) -> DoublePrecisionWork | None:
    """By the names of kernels, as in a profile."""
    device = trace.device
    if device is None or not tensor_cores.is_format_known(device):
        return None
    double = device.matrix_ms.get("float64", 0.0)
    known = sum(ms for format_, ms in device.matrix_ms.items() if format_ != tensor_cores.UNKNOWN_FORMAT)
    if double <= 0 or double < MIN_DOUBLE_SHARE * known or not device.kernel_ms:
        return None
    ms = trace.mean(Category.DEVICE) * min(device.precision.get("float64", double) / device.kernel_ms, 1.0)
    share = double / known
    return DoublePrecisionWork(
        f"kernels of float64 take {format_number(ms)} of each step's {format_number(trace.step_ms)} ms; "
        f"{share:.0%} of the matrix products and convolutions are in float64",
        share,
        ms,
        0.0,
        0.0,
        tensor_cores.op_lines(device, lambda op: device_activity.product_format(op) == "float64"),
    )


def _kept_share_by_card(trace: Trace) -> float | None:
    """The share of their time that float64 kernels keep in float32, by the card's peaks; None if these are not known.

    Frameworks round float32 to TF32 if the card has it. Kernels that memory bounds move half the bytes.
    """
    device, card = trace.device, tensor_cores.find_card(trace)
    if device is None or card is None or card.double is None or card.peaks is None:
        return None
    single = max(card.peaks[0], card.peaks[1] or 0.0)
    matrix = device.matrix_ms.get("float64", 0.0)
    share = min(matrix / max(device.precision.get("float64", matrix), matrix), 1.0) if matrix else 0.0
    gain = max(
        1 + tensor_cores.reached_gain_share(device, "float64") * (single / card.double - 1), ACCELERATOR_SLOWDOWN
    )
    return share / gain + (1 - share) / ACCELERATOR_SLOWDOWN


def _computing_ms(trace: Trace) -> float:
    """Time in ops. Without a window, the time in function calls is no more than an upper bound."""
    known = trace.mean(Category.DEVICE)
    return known if known or trace.kernels else UNPROFILED_COMPUTING_SHARE * trace.mean(Category.UNATTRIBUTED)


def _product_share(trace: Trace) -> float:
    """The share of op time in matrix products; assumed if no window shows it."""
    if trace.kernels is not None and trace.kernels.by_name:
        return op_work.op_time_share(trace.kernels, lambda op: op.matmul)
    return 0.0 if _has_convolutions(trace) else UNPROFILED_MATRIX_SHARE


def _convolution_share(trace: Trace) -> float:
    """The share of op time in convolutions; assumed if no window shows it."""
    if trace.kernels is not None and trace.kernels.by_name:
        return op_work.op_time_share(trace.kernels, lambda op: op.conv)
    return UNPROFILED_MATRIX_SHARE if _has_convolutions(trace) else 0.0


def _has_convolutions(trace: Trace) -> bool:
    kinds = {kind for graph in op_work.training_graphs(trace) for kind in graph.get("types", {})}
    classes = {str(weight.get("class")) for weight in op_work.largest_model_weights(trace)}
    return any("Conv" in name for name in kinds | classes)


def _computing_drop(trace: Trace, ms: float, spread: tuple[float, float]) -> Drop:
    known = trace.mean(Category.DEVICE)
    return Drop({Category.DEVICE if known else Category.UNATTRIBUTED: ms}, spread=spread)


def _matrix_op_places(trace: Trace) -> tuple[Place, ...]:
    """The lines of products in float64, else those that start training."""
    double = [
        Place(str(file), int(line))
        for graph in op_work.training_graphs(trace)
        for file, line in graph.get("double") or ()
    ]
    fits = sorted((e for e in trace.events_of("loop") if e.name == "fit"), key=lambda e: -e.ms)
    places = [*double, *(e.place for e in fits), trace.steps.place]
    traced = [
        Place(str(e.data["file"]), int(e.data["line"]))
        for e in trace.events_of("trace")
        if e.data.get("training") and not e.data.get("keras") and e.data.get("file")
    ]
    found = [p for p in (*places, *traced) if p is not None]
    return tuple(dict.fromkeys(found))[:3]
