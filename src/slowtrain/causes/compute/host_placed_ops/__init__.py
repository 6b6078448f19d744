"""Ops of the training graph that run on the host, and the copies around them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import MIN_SYMPTOM_SHARE, Cause
from slowtrain.columns.device import Device, DirectionCopies
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names, host_reasons
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores
from slowtrain.whatif import Drop, Remedy

MAX_NAME_LENGTH = 80  # of an op: its end, which says most
NO_COPIES = DirectionCopies(0.0, 0.0, 0.0, 0.0)
# For a tensor that goes to the host and back the device waits at least for two copies, for the thread that sees the end
# of the first, and for the next launch: 10 to 20 µs each in profiles of a V100.
MIN_ROUND_TRIP_MS = 0.05
MIN_CALLBACKS_PER_STEP = 0.5  # of Python from within the compiled program


class HostCrossing(Struct, frozen=True):
    """Edges of the graph between host and device per step, with the ops that they leave.

    The device waits ``copies_ms`` for the copies and ``waiting_ms`` for the ops.
    """

    edges: float
    ops: tuple[str, ...]
    copies_ms: float
    waiting_ms: float


class HostPlacedFinding(Struct, frozen=True):
    """``kinds``: types of the ops."""

    crossing: HostCrossing
    kinds: tuple[str, ...]
    where: tuple[Place, ...]


class HostPlacedOps(Cause[HostPlacedFinding]):
    """Ops inside the step run on the host because the device has no kernel for them, and the device waits."""

    title = "Ops of the step run on the host"
    needs = frozenset({Signal.STEPS, Signal.DEVICE})

    def wants(self, trace: Trace) -> frozenset[Signal]:
        device = trace.device
        # Small copies in both directions may be this cause, if the profile does not show their purpose.
        if (
            device is None
            or trace.compute_once(_host_crossing) is not None
            or not _has_unexplained_copies(trace, device)
        ):
            return super().wants(trace)
        return super().wants(trace) | {Signal.TRACES, Signal.MODEL}

    def find(self, trace: Trace) -> HostPlacedFinding | None:
        device = trace.device
        crossing = trace.compute_once(_host_crossing)
        if device is None or crossing is None:
            return None
        kinds = _op_kinds(device)
        found = HostPlacedFinding(crossing, kinds, _op_places(device, crossing))
        return found if found.where else replace(found, where=self.lines_to_change(trace, found))

    def evidence(self, trace: Trace, finding: HostPlacedFinding) -> Evidence:
        found = finding.crossing
        named = f": {', '.join(found.ops[:3])}" if found.ops else ""
        edges = f"; {format_number(found.edges)} tensors per step cross between them{named}" if found.edges else named
        return Evidence(
            f"the device waits {format_number(found.copies_ms + found.waiting_ms)} of each step's "
            f"{format_number(trace.step_ms)} ms for ops that the host computes{edges}",
            {"host_op_ms": found.waiting_ms, "copies_ms": found.copies_ms, "edges_per_step": found.edges},
            finding.where,
        )

    def remedies(self, trace: Trace, finding: HostPlacedFinding) -> Sequence[Remedy]:
        copies, waiting = finding.crossing.copies_ms, finding.crossing.waiting_ms
        drops = {Category.FEED: min(copies / 2, trace.mean(Category.FEED))}
        drops[Category.READBACK] = min(copies - drops[Category.FEED], trace.mean(Category.READBACK))
        drops[Category.HOST_OP] = min(waiting, trace.mean(Category.HOST_OP))
        drops[Category.DISPATCH] = waiting - drops[Category.HOST_OP]
        return [Drop(drops, 0.0, (0.5, 1.3))]


def _host_crossing(trace: Trace) -> HostCrossing | None:
    """None if no op of the graph is seen to run on the host."""
    device = trace.device
    if device is None:
        return None
    edges: dict[str, float] = {}
    for text, (_, count) in device.by_op.items():
        edge = re.search(framework_names.GRAPH_EDGE, text)
        if edge is not None and not re.search(framework_names.PLUMBING_OP, edge[1]):
            op = edge[1][-MAX_NAME_LENGTH:]
            edges[op] = edges.get(op, 0.0) + count
    count = sum(edges.values())
    out, back = (device.copies.get(kind, NO_COPIES) for kind in ("d2h", "h2d"))
    both = count >= 1 and out.count >= 1 and back.count >= 1
    computing = device.idle.get(host_reasons.HOST_OP_REASON, 0.0)
    if trace.fact("host_callbacks", default=0.0) >= MIN_CALLBACKS_PER_STEP:  # a program of JAX that calls Python
        called = tuple(dict.fromkeys(gap.detail for gap in device.gaps if gap.reason == host_reasons.HOST_OP_REASON))
        return HostCrossing(0.0, called, out.exposed_ms + back.exposed_ms, computing)
    if not both and computing < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    part = min(count / (out.count + back.count), 1.0) if both else 0.0
    copies = part * (out.exposed_ms + back.exposed_ms)
    waiting = computing
    if both:
        # If the profile does not show the ops themselves, the least that each crossing costs.
        waiting = max(computing, min(device.idle.get("dispatch", 0.0), count / 2 * MIN_ROUND_TRIP_MS))
    computed = (
        (gap.detail.rpartition(":")[0] or gap.detail)[-MAX_NAME_LENGTH:]
        for gap in device.gaps
        if gap.reason == host_reasons.HOST_OP_REASON
    )
    ops = tuple(sorted(edges, key=lambda e: -edges[e])) if both else tuple(dict.fromkeys(computed))
    return HostCrossing(count if both else 0.0, ops, copies, waiting)


def _op_kinds(device: Device) -> tuple[str, ...]:
    """Types of the ops that the host computed while the device waited, and of those whose tensors cross."""
    computed = [gap.detail.rpartition(":")[2] for gap in device.gaps if gap.reason == host_reasons.HOST_OP_REASON]
    edges = [edge[1] for text in device.by_op if (edge := re.search(framework_names.GRAPH_EDGE, text))]
    crossing = [
        re.sub(framework_names.NAME_NUMBER, "", edge.rpartition("/")[2])
        for edge in edges
        if not re.search(framework_names.PLUMBING_OP, edge)
    ]
    return tuple(dict.fromkeys(filter(None, (*computed, *crossing))))


def _op_places(device: Device, crossing: HostCrossing) -> tuple[Place, ...]:
    """The user's lines of the ops, if XLA's programs name them.

    XLA's programs append a number to equal names (`pure_callback.1`).
    """
    names = {op.rpartition("/")[2].partition(".")[0] for op in crossing.ops} - {""}
    return tensor_cores.op_lines(device, lambda op: op.partition(":")[0].rpartition("/")[2] in names)


def _has_unexplained_copies(trace: Trace, device: Device) -> bool:
    """Whether copies in both directions are exposed for a relevant time, and no name shows their purpose."""
    out, back = (device.copies.get(kind, NO_COPIES) for kind in ("d2h", "h2d"))
    named = any(re.search(framework_names.GRAPH_EDGE, text) or "#edge_name=" in text for text in device.by_op)
    exposed = out.exposed_ms + back.exposed_ms
    return not named and out.count >= 2 and back.count >= 2 and exposed >= MIN_SYMPTOM_SHARE * trace.step_ms
