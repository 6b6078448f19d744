"""A map does next to nothing for each of very many elements."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Place, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input_feed import (
    BATCH_CALL_MS,
    READY_ELEMENT_US,
    NestedDatasets,
    as_batched_map,
    calls_per_batch,
    can_take_batches,
    find_nested_datasets,
    is_user_node,
    ops_per_call,
    profiled_op_ms,
    slowest_stage_nodes,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

# A longer call does work: nearly empty ones took 8 to 19 µs in recordings on two shared cores, ones of 38 small ops 60.
MAX_EMPTY_CALL_US = 60.0
OP_START_US = 2.0
MIN_CALLS = 8.0  # a batch: fewer cannot add up
MIN_OVERHEAD_SHARE = 0.5  # of the map's time, which is spent on calls and on starting ops
# The share of the time in its ops that remains if each is called once for a batch: a kernel on a few numbers is mostly
# its own start. `clinic/batching.py`: 1 to 12 % is left of all the time of calls by element, with their starts.
OPS_LEFT_SHARE = 0.3
MAX_ELEMENT_BYTES = 65_536  # a larger element is work for any op


class NestedWindows(Struct, frozen=True):
    nested: NestedDatasets

    def evidence(self, _trace: Trace) -> Evidence:
        count = self.nested.count
        says = f"{count:.0f} data sets are made for each batch, one for each element"
        return Evidence(says, {"calls_per_step": count, "map_ms": self.nested.node.ms}, (self.nested.place,))

    def remedies(self, _trace: Trace) -> Sequence[Remedy]:
        return [Supply(pipeline=self.nested.in_batches(), nested=True, spread=(0.6, 1.1))]


class TinyMap(Struct, frozen=True):
    """A map whose calls are its cost; ``ops_ms`` of a batch are spent inside its ops."""

    node: Node
    ops_ms: float


class TinyMaps(Struct, frozen=True):
    """Such maps of a pipeline, from the first on, and their calls for a batch.

    Of several in a row each may take less than half of the slowest stage's time, but at least one sets the pace. A
    batch in front of the first of them is in front of all.
    """

    pipeline: Pipeline
    maps: tuple[TinyMap, ...]

    def evidence(self, _trace: Trace) -> Evidence:
        calls = sum(calls_per_batch(self.pipeline, one.node) for one in self.maps)
        ms, ops_ms = sum(one.node.ms for one in self.maps), sum(one.ops_ms for one in self.maps)
        subject, its = ("the map is", "its") if len(self.maps) == 1 else (f"{len(self.maps)} maps are", "their")
        return Evidence(
            f"{subject} called {calls:.0f} times a batch at {format_number(1e3 * ms / calls, 2)} µs each, "
            f"of which {format_number(1e3 * ops_ms / calls, 2)} µs are spent in {its} ops",
            {"calls_per_step": calls, "call_us": 1e3 * ms / calls, "op_us": 1e3 * ops_ms / calls, "map_ms": ms},
            self.where(),
        )

    def where(self) -> tuple[Place, ...]:
        return distinct_places(place for one in self.maps for place in _map_places(self.pipeline, one.node))

    def remedies(self, _trace: Trace) -> Sequence[Remedy]:
        pipe = self.pipeline
        batched = [
            as_batched_map(
                one.node,
                OPS_LEFT_SHARE * one.ops_ms + BATCH_CALL_MS + calls_per_batch(pipe, one.node) * READY_ELEMENT_US / 1e3,
            )
            for one in self.maps
        ]
        return [Supply(pipeline=pipe.with_nodes(*batched), spread=(0.8, 1.1))]


class PerElementMap(Cause[NestedWindows | TinyMaps]):
    """A `map` is called for every single element, and starting the call costs more than its work."""

    title = "Map is called for each element"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    usual_ms_per_step = 0.5  # some dozen calls of 10 µs
    words = (".map", "flat_map")

    def find(self, trace: Trace) -> NestedWindows | TinyMaps | None:
        return _find_nested_windows(trace) or _find_tiny_maps(trace)


def _find_nested_windows(trace: Trace) -> NestedWindows | None:
    nested = find_nested_datasets(trace, of_files=False)
    return NestedWindows(nested) if nested is not None else None


def _find_tiny_maps(trace: Trace) -> TinyMaps | None:
    pipe = waited_pipeline(trace)
    if pipe is None:
        return None
    slow = slowest_stage_nodes(pipe)
    found = tuple(tiny for node in pipe.nodes if (tiny := _tiny_map(trace, pipe, node)) is not None)
    ids = {one.node.id for one in found}
    return TinyMaps(pipe, found) if any(n.id in ids and n.ms >= 0.5 * slow[0].ms for n in slow) else None


def _tiny_map(trace: Trace, pipe: Pipeline, node: Node) -> TinyMap | None:
    """None unless the node is a map of the user's that can take batches and does next to nothing for each element."""
    if node.family != "Map" or not is_user_node(node) or node.written is None or not can_take_batches(node.written):
        return None
    calls = calls_per_batch(pipe, node)
    ops_ms = profiled_op_ms(trace, node) or 0.0
    crowded = stalls.crowding_ratio(trace)
    starting_us = crowded * OP_START_US * ops_per_call(trace, node)
    max_us = crowded * MAX_EMPTY_CALL_US + starting_us
    size = node.written.element_bytes or 0
    if calls < MIN_CALLS or 1e3 * node.ms > max_us * calls or size > MAX_ELEMENT_BYTES:
        return None
    overhead_ms = node.ms - max(ops_ms - starting_us * calls / 1e3, 0.0)
    return TinyMap(node, ops_ms) if overhead_ms >= MIN_OVERHEAD_SHARE * node.ms else None


def _map_places(pipe: Pipeline, node: Node) -> tuple[Place, ...]:
    """The map, the stages in front of it that take batches apart, and its function."""
    line, *function = user_lines(node) or (None,)
    in_front = pipe.nodes[: pipe.nodes.index(node)]
    unbatching = [n.written.place for n in in_front if n.family == "Unbatch" and n.written is not None]
    return distinct_places((line, *unbatching, *function))
