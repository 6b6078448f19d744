"""A map does next to nothing for each of very many elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.causes.input.per_element_map import fix
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import input_edits, measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.host.host_work import distinct_places
from slowtrain.trace.signals.input.input_feed import (
    BATCH_CALL_MS,
    READY_ELEMENT_US,
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
MOST_US, EACH_OP_US = 60.0, 2.0
LEAST_CALLS = 8.0  # a batch: fewer cannot add up
OVERHEAD = 0.5  # of the map's time, without what its ops do beyond being started: then the calls are the cost
# Of the time in its ops, what they take when each is called once for a batch: a kernel on a few numbers is mostly its
# own start. `clinic/batching.py`: of all that calls by element take, starting them included, 1 to 12 % is left.
INSIDE_LEFT = 0.3
SMALL_BYTES = 65_536  # an element that is larger is work to touch, whatever the ops


class PerElementMap(Cause[Evidence]):
    """A `map` is called for every single element, and starting the call costs more than its work."""

    title = "map is called for each element"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = (".map", "flat_map")

    def find(self, trace: Trace) -> Evidence | None:
        many = find_nested_datasets(trace, of_files=False)
        if many is not None:
            says = f"{many.count:.0f} data sets are made for each batch, one for each element"
            return Evidence(says, {"calls_per_step": many.count, "map_ms": many.node.ms}, (many.place,))
        found, pipe = _tiny(trace), trace.pipeline
        if not found or pipe is None:
            return None
        count = sum(calls_per_batch(pipe, node) for node, _ in found)
        ms, inside = sum(node.ms for node, _ in found), sum(ms for _, ms in found)
        says, its = ("the map is", "its") if len(found) == 1 else (f"{len(found)} maps are", "their")
        return Evidence(
            f"{says} called {count:.0f} times a batch at {format_number(1e3 * ms / count, 2)} µs each, "
            f"of which {format_number(1e3 * inside / count, 2)} µs are spent in {its} ops",
            {"calls_per_step": count, "call_us": 1e3 * ms / count, "op_us": 1e3 * inside / count, "map_ms": ms},
            distinct_places(place for node, _ in found for place in _places(pipe, node)),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        many = find_nested_datasets(trace, of_files=False)
        if many is not None:
            return [Supply(pipeline=many.in_batches(), nested=True, spread=(0.6, 1.1))]
        found, pipe = _tiny(trace), trace.pipeline
        if not found or pipe is None:
            return []
        whole = [
            as_batched_map(n, INSIDE_LEFT * ms + BATCH_CALL_MS + calls_per_batch(pipe, n) * READY_ELEMENT_US / 1e3)
            for n, ms in found
        ]
        return [Supply(pipeline=pipe.changed(*whole), spread=(0.8, 1.1))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if find_nested_datasets(trace, of_files=False) is not None:
            says = "gather whole batches by index (or timeseries_dataset_from_array) in place of window().flat_map()"
            made = measured.first(trace, evidence.where, fix.gathered)
            yield Prescription("edit" if made else "advice", Effect.EXACT, says, edits=made)
            return
        found = _tiny(trace)
        made = input_edits.batch_before_map(trace, found[0][0] if found else None, evidence.where[:1])
        yield Prescription("edit", Effect.EQUIVALENT, "batch first, then map over whole batches", edits=made)


def _places(pipe: Pipeline, node: Node) -> tuple[Place, ...]:
    """The map, what takes batches apart in front of it, and its function."""
    line, *function = user_lines(node) or (None,)
    ahead = pipe.nodes[: pipe.nodes.index(node)]
    apart = [n.written.place for n in ahead if n.family == "Unbatch" and n.written is not None]
    return distinct_places((line, *apart, *function))


def _tiny(trace: Trace) -> list[tuple[Node, float]]:
    """The maps whose calls are the cost, from the first on, each with the ms a batch inside its ops.

    Of several in a row each may cost less than half; one at least sets the pace. To batch in front of the first of them
    is to batch in front of all.
    """
    pipe = waited_pipeline(trace)
    if pipe is None:
        return []
    nodes = slowest_stage_nodes(pipe)
    found = [(node, inside) for node in pipe.nodes if (inside := _inside_ms(trace, pipe, node)) is not None]
    tiny = {node.id for node, _ in found}
    return found if any(n.id in tiny and n.ms >= 0.5 * nodes[0].ms for n in nodes) else []


def _inside_ms(trace: Trace, pipe: Pipeline, node: Node) -> float | None:
    """Ms a batch inside the ops of a map that does next to nothing for each of very many elements; None: it is none."""
    if node.family != "Map" or not is_user_node(node) or node.written is None or not can_take_batches(node.written):
        return None
    count = calls_per_batch(pipe, node)
    inside = profiled_op_ms(trace, node) or 0.0
    size = node.written.element_bytes or 0
    crowded = stalls.crowding_ratio(trace)
    starting_us = crowded * EACH_OP_US * ops_per_call(trace, node)
    most_us = crowded * MOST_US + starting_us
    if count < LEAST_CALLS or 1e3 * node.ms > most_us * count or size > SMALL_BYTES:
        return None
    calling = node.ms - max(inside - starting_us * count / 1e3, 0.0)
    return inside if calling >= OVERHEAD * node.ms else None
