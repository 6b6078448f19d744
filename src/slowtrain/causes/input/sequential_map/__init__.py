"""A map, or the maps inside an interleave, transform one element at a time while cores are idle."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Evidence, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.input_feed import (
    calls_per_batch,
    idle_cores,
    is_user_node,
    slow_user_maps,
    user_lines,
    waited_pipeline,
)
from slowtrain.whatif import Remedy, Supply

MIN_MAP_SHARE = 0.5  # of the time in which the pipeline makes a batch
MIN_THREADED_CALL_US = 30.0  # assumed: a shorter call is mostly overhead, which threads do not lower
MIN_IDLE_CORES = 0.25


class SequentialInterleave(Struct, frozen=True):
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
            f"each, {format_number(self.map_ms)} ms a batch, while {_idle_cores_text(trace)}",
            {"map_ms": self.map_ms, "element_us": call_us, "idle_cores": idle_cores(trace), "parallelism": 1.0},
            user_lines(self.node),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        width = min(trace.cores, self.cycle_length or trace.cores)
        parallel = replace(self.node, name="ParallelInterleaveV4", parallelism=width)
        return [Supply(pipeline=self.pipeline.with_nodes(parallel))]


class SequentialUserMap(Struct, frozen=True):
    """A map that sets the pace of the pipeline, and its calls for each batch."""

    pipeline: Pipeline
    node: Node
    calls: float

    def evidence(self, trace: Trace) -> Evidence:
        node = self.node
        call_us = 1e3 * node.ms / max(self.calls, 1e-9)
        return Evidence(
            f"the map transforms one element at a time, {format_number(call_us / 1e3, 2)} ms each, "
            f"{format_number(node.ms)} ms a batch, while {_idle_cores_text(trace)}",
            {
                "map_ms": node.ms,
                "element_us": call_us,
                "idle_cores": idle_cores(trace),
                "parallelism": node.parallelism or 1.0,
            },
            user_lines(node),
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        # As many calls at once as there are cores. The replay counts the processor time that the step needs as well.
        name = self.node.name if self.node.asynchronous else "ParallelMapV2"
        parallel = replace(self.node, name=name, parallelism=trace.cores)
        return [Supply(pipeline=self.pipeline.with_nodes(parallel))]


class SequentialMap(Cause[SequentialUserMap | SequentialInterleave]):
    """A `map` transforms one element after the other while other cores have nothing to do."""

    title = "Map runs one call at a time"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = (".map",)

    def find(self, trace: Trace) -> SequentialUserMap | SequentialInterleave | None:
        return _find_sequential_map(trace) or _find_sequential_interleave(trace)


def _find_sequential_interleave(trace: Trace) -> SequentialInterleave | None:
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


def _find_sequential_map(trace: Trace) -> SequentialUserMap | None:
    """The user's map that sets the pace and runs one call at a time without need."""
    pipe = waited_pipeline(trace)
    if pipe is None or idle_cores(trace) < MIN_IDLE_CORES:
        return None
    for node in slow_user_maps(pipe):
        calls = calls_per_batch(pipe, node)
        is_sequential = (node.parallelism or 1.0) <= 1.0 and not node.tunable
        is_long = 1e3 * node.ms >= MIN_THREADED_CALL_US * calls
        if is_sequential and is_long and calls > 1 and node.written and not node.written.python:
            return SequentialUserMap(pipe, node, calls)
    return None


def _idle_cores_text(trace: Trace) -> str:
    """How many cores are idle; or how many training uses, if other processes take the rest."""
    idle, of = idle_cores(trace), f"of {trace.cores:g} cores"
    if stalls.crowding_cores(trace) >= MIN_IDLE_CORES:
        return f"training takes {format_number(max(trace.cores - idle, 0.0), 2)} {of}"
    return f"{format_number(idle, 2)} {of} are idle"
