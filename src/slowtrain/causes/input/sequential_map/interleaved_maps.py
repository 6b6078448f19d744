"""Maps inside an interleave without parallel calls: only one of them works at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slowtrain.causes.input.sequential_map.user_map import MIN_IDLE_CORES, MIN_THREADED_CALL_US, idle_cores_text
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import idle_cores, is_user_node, user_lines, waited_pipeline
from slowtrain.whatif import Remedy, Supply

MIN_MAP_SHARE = 0.5  # of the time in which the pipeline makes a batch


@dataclass(frozen=True)
class SequentialInterleave:
    """An ``interleave`` whose data sets take turns; ``map_ms`` and ``elements`` of their maps for each batch.

    ``cycle_length`` is how many data sets it reads alternately; 0 if that is unknown.
    """

    pipeline: Pipeline
    node: Node
    map_ms: float
    elements: float
    cycle_length: int

    def evidence(self, trace: Trace) -> Evidence:
        call_us = 1e3 * self.map_ms / max(self.elements, 1e-9)
        return Evidence(
            f"the maps inside this interleave transform one element at a time, {format_number(call_us / 1e3, 2)} ms "
            f"each, {format_number(self.map_ms)} ms a batch, while {idle_cores_text(trace)}",
            {"map_ms": self.map_ms, "element_us": call_us, "idle_cores": idle_cores(trace), "parallelism": 1.0},
            user_lines(self.node),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        width = min(trace.cores, self.cycle_length or trace.cores)
        parallel = replace(self.node, name="ParallelInterleaveV4", parallelism=width)
        return [Supply(pipeline=self.pipeline.with_nodes(parallel))]

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        found = recorded_edits.first_applicable(trace, user_lines(self.node)[:1], dataset_edits.parallelise_interleave)
        yield Prescription("edit", Effect.EXACT, "give interleave num_parallel_calls=tf.data.AUTOTUNE", edits=found)


def find_sequential_interleave(trace: Trace) -> SequentialInterleave | None:
    """The user's interleave without parallel calls whose own maps set the pace."""
    pipe = waited_pipeline(trace)
    if pipe is None or idle_cores(trace) < MIN_IDLE_CORES or trace.producers:
        return None
    for node in pipe.nodes:
        if node.family != "Interleave" or node.asynchronous or not is_user_node(node) or node.written is None:
            continue
        # The maps inside its function were called while a graph was built, so that they have no recorded line.
        inner = [
            n for n in pipe.upstream_nodes(node) if n.family == "Map" and not is_user_node(n) and not n.asynchronous
        ]
        map_ms, elements = sum(n.ms for n in inner), sum(n.elements for n in inner)
        if map_ms >= MIN_MAP_SHARE * pipe.made_ms and 1e3 * map_ms >= MIN_THREADED_CALL_US * elements:
            cycle_length = int(node.written.detail.get("cycle_length") or 0)
            return SequentialInterleave(pipe, node, map_ms, elements, cycle_length)
    return None
