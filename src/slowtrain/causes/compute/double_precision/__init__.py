"""The model computes in double precision."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.causes.compute.double_precision import fix
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import op_shapes
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, tensor_cores
from slowtrain.whatif import Drop, Remedy

# How many times as long an op takes in float64, measured on two AVX-512 cores with TensorFlow 2.21, interleaved:
# matrix products of 64 to 256 a side 2 to 3, of 512 and more 3.4 to 17, convolutions 2.4 to 6.7 (float32 runs in
# oneDNN, float64 in Eigen), the rest 1 to 2 (twice the bytes). Whole steps gain less than their products by
# themselves, whose operands were at hand: pairs of scripts took 1.7 to 2.5 times as long, hence the lower end.
# GPUs for computing centres do half as many float64 operations, others 1 in 32 to 64.
MATMUL, CONV, REST = 3.0, 4.0, 1.5
ACCELERATOR = 2.0
X64 = "jax_enable_x64"
MOSTLY = 0.5  # of the matrix ops, or of the weights: fewer are a deliberate exception


class DoublePrecision(Cause[Evidence]):
    """The model computes in float64, at several times the cost of float32."""

    title = "The model computes in double precision"
    needs = frozenset({Signal.STEPS})
    words = ("float64", "GradientTape")

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not trace.fact("profile"):
            return self.needs
        # Without matrix work there is little that float64 makes slow on a GPU; of other devices names tell nothing.
        device = trace.device
        told = device is not None and device.kind == "GPU" and tensor_cores.is_format_known(device)
        return self.needs | ({Signal.DEVICE} if told else {Signal.MODEL})

    def find(self, trace: Trace) -> Evidence | None:
        if trace.fact("profile"):
            return _in_kernels(trace)
        matrix: dict[str, int] = {}
        for graph in op_work.training_graphs(trace):
            for dtype, count in graph.get("matrix", {}).items():
                matrix[dtype] = matrix.get(dtype, 0) + int(count)
        weights = op_work.largest_model_weights(trace)
        if not matrix and not weights:  # a loop by hand on JAX: its kernels tell, where a window saw them
            seen = _in_kernels(trace)
            return (
                replace(seen, where=source_locations.merge_places(_switched(trace), seen.where))
                if seen is not None
                else None
            )
        if matrix:
            found, total, what = matrix.get("float64", 0), sum(matrix.values()), "matrix products and convolutions"
        else:
            found = sum(int(w["size"]) for w in weights if w.get("dtype") == "float64")
            total, what = sum(int(w["size"]) for w in weights), "weights"
        if not found or found < MOSTLY * total:
            return None
        device = _computing_ms(trace)
        return Evidence(
            f"{found:,} of {total:,} {what} are float64; computing takes {format_number(device)} ms of each step",
            {
                "float64_share": found / total,
                "device_ms": device,
                "matmul_share": _share(trace, 0),
                "conv_share": _share(trace, 1),
            },
            source_locations.merge_places(self._made(trace), _where(trace)),
        )

    def _made(self, trace: Trace) -> tuple[Place, ...]:
        """Where the text makes numbers of double precision: what is computed with them only takes their width."""
        seen = source_locations.project_places(trace, lambda source: [spot.start[0] for spot in self.spot(source)])
        return (seen or source_locations.edit_places(_in_single(trace)))[:2]

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        device, products, conv = (evidence.numbers[k] for k in ("device_ms", "matmul_share", "conv_share"))
        if trace.on_accelerator:
            kept = _kept_by_card(trace)
            if kept is not None:
                return [_drop(trace, device * (1 - kept), (0.6, 1.1))]
            return [_drop(trace, device * (1 - 1 / ACCELERATOR), (0.6, 1.9))]
        kept = products / MATMUL + conv / CONV + (1 - products - conv) / REST
        return [_drop(trace, device * (1 - kept), (0.7, 1.25))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        says = "compute in float32: drop set_floatx('float64'), make the data float32"
        if trace.on_jax:
            says = "compute in float32: drop jax_enable_x64 and set_floatx('float64'), make the data float32"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=_in_single(trace))


def _switched(trace: Trace) -> tuple[Place, ...]:
    """Where the text tells JAX to compute in double precision wherever NumPy does."""

    def lines(source: Source) -> list[int]:
        calls = (n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and len(n.args) > 1)
        return [c.lineno for c in calls if getattr(c.args[0], "value", "") == X64 and getattr(c.args[1], "value", 0)]

    return source_locations.project_places(trace, lines)


def _in_kernels(trace: Trace) -> Evidence | None:
    """In a profile: by the kernels' names."""
    device = trace.device
    if device is None or not tensor_cores.is_format_known(device):
        return None
    double = device.matrix_ms.get("float64", 0.0)
    known = sum(ms for format_, ms in device.matrix_ms.items() if format_ != tensor_cores.UNKNOWN_FORMAT)
    if double <= 0 or double < MOSTLY * known or not device.kernel_ms:
        return None
    ms = trace.mean(Category.DEVICE) * min(device.precision.get("float64", double) / device.kernel_ms, 1.0)
    return Evidence(
        f"kernels of float64 take {format_number(ms)} of each step's {format_number(trace.step_ms)} ms, "
        f"{double / known:.0%} of the matrix products and convolutions among them",
        {"float64_share": double / known, "device_ms": ms, "matmul_share": 0.0, "conv_share": 0.0},
        tensor_cores.op_lines(device, lambda op: op_shapes.product_format(op) == "float64"),
    )


def _kept_by_card(trace: Trace) -> float | None:
    """Of the time of float64's kernels what they keep in float32, by the card's peaks; None where those are not known.

    Frameworks let float32 be rounded to TF32 where the card has it; what memory bounds moves half the bytes.
    """
    device, card = trace.device, tensor_cores.find_card(trace)
    if device is None or card is None or card.double is None or card.peaks is None:
        return None
    single = max(card.peaks[0], card.peaks[1] or 0.0)
    matrix = device.matrix_ms.get("float64", 0.0)
    share = min(matrix / max(device.precision.get("float64", matrix), matrix), 1.0) if matrix else 0.0
    gain = max(1 + tensor_cores.reached_gain_share(device, "float64") * (single / card.double - 1), ACCELERATOR)
    return share / gain + (1 - share) / ACCELERATOR


def _computing_ms(trace: Trace) -> float:
    """What ops take; where no window told, all that calls of functions take is no better than an upper bound."""
    known = trace.mean(Category.DEVICE)
    return known if known or trace.kernels else 0.6 * trace.mean(Category.UNATTRIBUTED)


def _share(trace: Trace, which: int) -> float:
    """The part of op time in matrix products (0) or convolutions (1); by the graph's ops where no window told."""
    if trace.kernels is not None and trace.kernels.by_name:
        return op_work.op_time_share(trace.kernels, lambda o: o.conv if which else o.matmul)
    types: dict[str, int] = {}
    for graph in op_work.training_graphs(trace):
        types.update(graph.get("types", {}))
    conv = any("Conv" in kind for kind in types) or any(
        "Conv" in str(w.get("class")) for w in op_work.largest_model_weights(trace)
    )
    return 0.8 if conv == bool(which) else 0.0


def _drop(trace: Trace, ms: float, spread: tuple[float, float]) -> Drop:
    known = trace.mean(Category.DEVICE)
    return Drop({Category.DEVICE if known else Category.UNATTRIBUTED: ms}, spread=spread)


def _where(trace: Trace) -> tuple[Place, ...]:
    """The products in float64 where the user wrote them, else where training is started."""
    double = [
        Place(str(file), int(line))
        for graph in op_work.training_graphs(trace)
        for file, line in graph.get("double") or ()
    ]
    fits = sorted((e for e in trace.events_of("loop") if e.name == "fit"), key=lambda e: -e.ms)
    places = [*double, *(e.place for e in fits), trace.steps.place]
    made = [Place(str(e.data["file"]), int(e.data["line"])) for e in trace.events_of("trace") if e.data.get("training")
            and not e.data.get("keras") and e.data.get("file")]  # fmt: skip
    found = [p for p in (*places, *made) if p is not None]
    return tuple(dict.fromkeys(found))[:3]


def _in_single(trace: Trace) -> tuple[Edit, ...]:
    """All files of the project in float32, or none: formats have to fit together."""
    done: list[Edit] = []
    for text in recorded_sources(trace):
        changed = fix.single(text)
        if not changed and "float64" in text.text:
            return ()
        done += changed
    return tuple(done)
