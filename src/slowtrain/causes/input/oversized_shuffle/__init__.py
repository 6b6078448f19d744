"""A shuffle buffer of decoded samples takes a large part of the host's memory."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import free_host_bytes
from slowtrain.trace.signals.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip

MIN_BUFFER_SHARE = 0.25  # of the buffer and the memory left free together


class OversizedBuffer(Struct, frozen=True):
    """The user's shuffle that held most, and the least memory that was free meanwhile."""

    node: Node
    free_bytes: float


class OversizedShuffle(Cause[OversizedBuffer]):
    """A shuffle buffer holds so many whole samples that it takes a large part of the host's memory."""

    title = "The shuffle buffer is oversized"
    worth_if = "memory is short, or the buffer is filled again for short epochs"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE, Signal.MACHINE})
    words = (".shuffle",)

    def find(self, trace: Trace) -> OversizedBuffer | None:
        buffers = (
            n for p in trace.pipelines for n in p.nodes if n.family == "Shuffle" and n.written and n.written.place
        )
        node, free = max(buffers, key=lambda n: n.buffered_bytes, default=None), free_host_bytes(trace)
        if node is None or free is None or node.buffered_bytes < MIN_BUFFER_SHARE * (node.buffered_bytes + free):
            return None
        return OversizedBuffer(node, free)

    def evidence(self, trace: Trace, finding: OversizedBuffer) -> Evidence:
        buffer_bytes, free = finding.node.buffered_bytes, finding.free_bytes
        buffered, left = format_number(buffer_bytes / 2**20), format_number(free / 2**20)
        return Evidence(
            f"the shuffle buffer held {buffered} MiB, {left} MiB were left free",
            {"buffer_bytes": buffer_bytes, "free_bytes": free},
            finding.node.places,
        )

    def remedies(self, trace: Trace, finding: OversizedBuffer) -> Sequence[Remedy]:
        fill = find_shuffle_fill(trace)
        if fill is None:
            return []
        inside = max(fill.step_ms - fill.overlapped_ms, 0.0)
        return [Drop({Category.INPUT: inside}), Skip(fill.outside_ms)]

    def scope_in(self, trace: Trace, finding: OversizedBuffer) -> str:
        """The run if the wait for the buffer lies between the steps."""
        fill = find_shuffle_fill(trace)
        return "run" if fill is not None and fill.step_ms <= 0 else "step"
