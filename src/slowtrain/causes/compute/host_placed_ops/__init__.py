"""Ops of the training graph that run on the host, and the copies around them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from slowtrain.causes import LITTLE, Cause
from slowtrain.causes.compute.host_placed_ops import fix as symmetric_cure
from slowtrain.columns.device import Device
from slowtrain.columns.device_copies import DirectionCopies
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.script.locations import op_calls
from slowtrain.script.locations.recorded_sources import edit_project, recorded_source
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.compute import models
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import kernel_launches, tensor_cores
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

LETTERS = 80  # of an op's name, whose last part says most
NO_COPIES = DirectionCopies(0.0, 0.0, 0.0, 0.0)
# A tensor on its way to the host and back makes the device wait at least for two copies, for the thread that sees the
# first one's end, and for the next launch: 10 to 20 µs each in profiles of a V100.
ROUND_TRIP_MS = 0.05
NOT_IN_XLA = frozenset({"Eig", "PyFunc", "EagerPyFunc", "PyFuncStateless"})
LEAST_CALLS = 0.5  # a step, of Python from within the compiled program


@dataclass(frozen=True)
class Crossing:
    """Edges of the graph between host and device, a step, with the ops that they leave; what the device waits."""

    edges: float
    ops: tuple[str, ...]
    copies_ms: float
    waiting_ms: float


class HostPlacedOps(Cause[Evidence]):
    """Ops inside the step run on the host, for want of a kernel for the device, and the device waits for them."""

    title = "Ops of the step run on the host"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        # Small copies to and fro whose purpose the profile does not tell may be this.
        if device is None or _crossing(trace, device) is not None or not _unclear(trace, device):
            return super().wants(trace)
        return super().wants(trace) | {Signal.TRACES, Signal.MODEL}

    def find(self, trace: Trace) -> Evidence | None:
        found = _crossing(trace, trace.device) if trace.device is not None else None
        if found is None:
            return None
        ms = found.copies_ms + found.waiting_ms
        said = f": {', '.join(found.ops[:3])}" if found.ops else ""
        cross = f"; {format_number(found.edges)} tensors a step cross to and fro{said}" if found.edges else said
        return Evidence(
            f"the device waits {format_number(ms)} of each step's {format_number(trace.step_ms)} ms for ops that "
            "the host "
            f"computes{cross}",
            {"host_op_ms": found.waiting_ms, "copies_ms": found.copies_ms, "edges_per_step": found.edges},
            _where(trace, found),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        copies, waiting = evidence.numbers["copies_ms"], evidence.numbers["host_op_ms"]
        drops = {Category.FEED: min(copies / 2, trace.mean(Category.FEED))}
        drops[Category.READBACK] = min(copies - drops[Category.FEED], trace.mean(Category.READBACK))
        drops[Category.HOST_OP] = min(waiting, trace.mean(Category.HOST_OP))
        drops[Category.DISPATCH] = waiting - drops[Category.HOST_OP]
        return [Drop(drops, 0.0, (0.5, 1.3))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        moved = edit_project(trace, models.own_device)
        if moved:
            says = 'take the training out of tf.device("/CPU:0"): tf.device(None) leaves placing to TensorFlow'
            yield Prescription("edit", Effect.EQUIVALENT, says, edits=moved)
        if trace.on_jax:
            says = "write it in jax.numpy inside the step, or compute it before the step where it needs only the batch"
            yield Prescription("edit", Effect.EQUIVALENT, says)
            return
        yield from _instead(trace, _kinds(trace), evidence)
        log = "see where ops are placed: tf.debugging.set_log_device_placement(True)"
        yield Prescription("advice", Effect.EXACT, log)


def _crossing(trace: Trace, device: Device) -> Crossing | None:
    """None where no op of the graph that the host computes shows."""
    edges: dict[str, float] = {}
    for text, (_, count) in device.by_op.items():
        edge = framework_names.GRAPH_EDGE.search(text)
        if edge is not None and not framework_names.PLUMBING_OP.search(edge[1]):
            op = edge[1][-LETTERS:]
            edges[op] = edges.get(op, 0.0) + count
    count = sum(edges.values())
    out, back = (device.copies.get(kind, NO_COPIES) for kind in ("d2h", "h2d"))
    both = count >= 1 and out.count >= 1 and back.count >= 1
    computing = device.idle.get(framework_names.HOST_OP_REASON, 0.0)
    if trace.fact("host_callbacks", default=0.0) >= LEAST_CALLS:  # a program of JAX that calls Python
        called = tuple(dict.fromkeys(gap.detail for gap in device.gaps if gap.reason == framework_names.HOST_OP_REASON))
        return Crossing(0.0, called, out.exposed_ms + back.exposed_ms, computing)
    if not both and computing < LITTLE * trace.step_ms:
        return None
    part = min(count / (out.count + back.count), 1.0) if both else 0.0
    copies = part * (out.exposed_ms + back.exposed_ms)
    waiting = computing
    if both:
        # Where the profile does not tell the ops themselves, what each crossing costs at least.
        waiting = max(computing, min(device.idle.get("dispatch", 0.0), count / 2 * ROUND_TRIP_MS))
    computed = (
        (gap.detail.rpartition(":")[0] or gap.detail)[-LETTERS:]
        for gap in device.gaps
        if gap.reason == framework_names.HOST_OP_REASON
    )
    ops = tuple(sorted(edges, key=lambda e: -edges[e])) if both else tuple(dict.fromkeys(computed))
    return Crossing(count if both else 0.0, ops, copies, waiting)


def _kinds(trace: Trace) -> tuple[str, ...]:
    """Types of the ops that the host computed while the device waited, and of those whose tensors cross."""
    device = trace.device
    if device is None:
        return ()
    computed = [gap.detail.rpartition(":")[2] for gap in device.gaps if gap.reason == framework_names.HOST_OP_REASON]
    edges = [edge[1] for text in device.by_op if (edge := framework_names.GRAPH_EDGE.search(text))]
    crossing = [
        framework_names.NAME_NUMBER.sub("", edge.rpartition("/")[2])
        for edge in edges
        if not framework_names.PLUMBING_OP.search(edge)
    ]
    return tuple(dict.fromkeys(filter(None, (*computed, *crossing))))


def _calls(trace: Trace, kinds: Sequence[str]) -> Iterable[tuple[Source, ast.Call]]:
    """Calls in the step's function that make such ops, with the file they stand in."""
    begun = kernel_launches.user_step_function(trace)
    source = recorded_source(trace, begun.file) if begun is not None else None
    if source is not None and begun is not None:
        yield from ((source, call) for call in op_calls.calls_making_ops(source, begun.line, kinds))


def _instead(trace: Trace, kinds: Sequence[str], evidence: Evidence) -> Iterable[Prescription]:
    """What to do with the op, by what it needs."""
    calls = list(_calls(trace, kinds))
    if calls and all(op_calls.needs_batch_alone(source, call) for source, call in calls):
        yield Prescription("edit", Effect.EXACT, "it needs only the batch: move it into the map of the input pipeline")
        return
    symmetric = measured.first(trace, evidence.where, symmetric_cure.real_eigenvalues)
    if symmetric or "Eig" in kinds:
        says = "tf.linalg.eigvalsh (eigh), which has a kernel for the GPU, where the matrix is symmetric"
        yield Prescription("edit" if symmetric else "advice", Effect.EQUIVALENT, says, edits=symmetric)
    if calls:
        says = (
            "it needs what the step computes: compute it in every tenth step, or write it with ops that have a kernel"
        )
        yield Prescription("advice", Effect.CHANGES_TRAINING, says)
    else:
        says = "what needs only the batch goes into the input pipeline's map; the rest into few of the steps"
        yield Prescription("advice", Effect.CHANGES_TRAINING, says)
    if not NOT_IN_XLA & set(kinds):
        says = "try jit_compile=True on the step: XLA compiles some of these ops for the device"
        yield Prescription("advice", Effect.EQUIVALENT, says)


def _where(trace: Trace, found: Crossing) -> tuple[Place, ...]:
    """The user's lines of the ops, where XLA's programs tell, or the text of the step's function.

    XLA's programs number what has one name (`pure_callback.1`).
    """
    called = {op.rpartition("/")[2].partition(".")[0] for op in found.ops} - {""}
    device = trace.device
    if device is None:
        return ()
    told = tensor_cores.op_lines(device, lambda op: op.partition(":")[0].rpartition("/")[2] in called)
    return told or tuple(Place(source.file, call.lineno) for source, call in _calls(trace, _kinds(trace)))


def _unclear(trace: Trace, device: Device) -> bool:
    """Whether copies in both directions expose more than little of the step, and no name says what they are for."""
    out, back = (device.copies.get(kind, NO_COPIES) for kind in ("d2h", "h2d"))
    named = any(framework_names.GRAPH_EDGE.search(text) or "#edge_name=" in text for text in device.by_op)
    exposed = out.exposed_ms + back.exposed_ms
    return not named and out.count >= 2 and back.count >= 2 and exposed >= LITTLE * trace.step_ms
