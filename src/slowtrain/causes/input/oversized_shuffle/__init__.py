"""A shuffle buffer of decoded samples eats the host's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.input import datasets
from slowtrain.trace import Trace
from slowtrain.trace.signals.input.input_feed import free_host_bytes
from slowtrain.trace.signals.input.shuffle_fill import find_shuffle_fill
from slowtrain.whatif import Drop, Remedy, Skip

LARGE = 0.25  # of the memory that the buffer and what was left free make together


class OversizedShuffle(Cause[Evidence]):
    """A shuffle buffer holds so many whole samples that it takes a large part of the host's memory."""

    title = "The shuffle buffer is oversized"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE, Signal.MACHINE})
    words = (".shuffle",)

    def find(self, trace: Trace) -> Evidence | None:
        node, free = _largest(trace), free_host_bytes(trace)
        if node is None or free is None or node.buffered_bytes < LARGE * (node.buffered_bytes + free):
            return None
        return Evidence(
            f"the shuffle buffer held {format_number(node.buffered_bytes / 2**20)} MiB, "
            f"{format_number(free / 2**20)} MiB were left free",
            {"buffer_bytes": node.buffered_bytes, "free_bytes": free},
            (node.written.place,) if node.written and node.written.place else (),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = find_shuffle_fill(trace)
        if found is None:
            return []
        inside = max(found.step_ms - found.overlapped_ms, 0.0)
        return [Drop({Category.INPUT: inside}), Skip(found.outside_ms)]

    def scope_in(self, trace: Trace, evidence: Evidence) -> str:
        """Of the run where the wait lies between the steps."""
        found = find_shuffle_fill(trace)
        return "run" if found is not None and found.step_ms <= 0 else "step"

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = measured.first(trace, evidence.where, datasets.shuffled_first)
        yield Prescription("edit", Effect.EQUIVALENT, "shuffle before decoding, or as uint8", edits=found)
        yield Prescription("edit", Effect.CHANGES_TRAINING, "make the buffer smaller")


def _largest(trace: Trace) -> Node | None:
    """The user's shuffle that held most."""
    found = [n for p in trace.pipelines for n in p.nodes if n.family == "Shuffle" and n.written and n.written.place]
    return max(found, key=lambda n: n.buffered_bytes, default=None)
