"""A map, or an interleave of maps, works on one element at a time while cores are idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slowtrain.causes import Cause
from slowtrain.columns.input_pipeline import Node
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.source.cures import input_edits, measured
from slowtrain.source.cures.input import datasets
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.input.input_feed import (
    calls_per_batch,
    idle_cores,
    is_user_node,
    slow_user_maps,
    user_lines,
    waited_pipeline,
)
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, Supply

LEAST_US = 30.0  # assumed: a shorter call is mostly the price of calling, which threads do not lower
LEAST_IDLE = 0.25  # of a core


class SequentialMap(Cause[Evidence]):
    """A `map` transforms one element after the other while other cores have nothing to do."""

    title = "map runs one call at a time"
    needs = frozenset({Signal.STEPS, Signal.INPUT, Signal.PIPELINE})
    symptoms = frozenset({Category.INPUT})
    words = (".map",)

    def find(self, trace: Trace) -> Evidence | None:
        node = _sequential(trace)
        if node is None or trace.pipeline is None:
            return _in_turn(trace)
        count = calls_per_batch(trace.pipeline, node)
        us, idle = 1e3 * node.ms / max(count, 1e-9), idle_cores(trace)
        return Evidence(
            f"the map makes one element at a time, {format_number(us / 1e3, 2)} ms each, {format_number(node.ms)} "
            "ms a batch, "
            f"while {_spare(trace)}",
            {"map_ms": node.ms, "element_us": us, "idle_cores": idle, "parallelism": node.parallelism or 1.0},
            user_lines(node),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        node, nested = _sequential(trace), _interleaved(trace)
        if trace.pipeline is not None and node is None and nested is not None:
            width = min(trace.cores, nested.reads or trace.cores)
            wide = replace(nested.node, name="ParallelInterleaveV4", parallelism=width)
            return [Supply(pipeline=trace.pipeline.changed(wide))]
        if node is None or trace.pipeline is None:
            return []
        # As many calls at once as there are cores; that the step needs them too, the replay's processor time says.
        name = node.name if node.asynchronous else "ParallelMapV2"
        return [Supply(pipeline=trace.pipeline.changed(replace(node, name=name, parallelism=trace.cores)))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        node = _sequential(trace)
        if node is None:
            together = measured.first(trace, evidence.where[:1], datasets.interleaved)
            says = "give interleave num_parallel_calls=tf.data.AUTOTUNE"
            yield Prescription("edit", Effect.EXACT, says, edits=together)
            return
        line = input_edits.mapped_function_line(node)
        fixed = node.written is not None and bool(node.written.ops) and not node.written.random
        found = measured.first(trace, evidence.where[:1], lambda s, at: datasets.parallel(s, at, line))
        effect = Effect.EXACT if fixed else Effect.EQUIVALENT
        says = "give map num_parallel_calls=tf.data.AUTOTUNE"
        yield Prescription("edit", effect, says, edits=found, treatment="parallel-map")


def _sequential(trace: Trace) -> Node | None:
    """The user's map that sets the pace, runs one call at a time, and need not."""
    pipe = waited_pipeline(trace)
    if pipe is None or idle_cores(trace) < LEAST_IDLE:
        return None
    for node in slow_user_maps(pipe):
        alone = (node.parallelism or 1.0) <= 1.0 and not node.tunable
        long = 1e3 * node.ms >= LEAST_US * calls_per_batch(pipe, node)
        if alone and long and calls_per_batch(pipe, node) > 1 and node.written and not node.written.python:
            return node
    return None


@dataclass(frozen=True)
class Nested:
    """An ``interleave`` whose data sets make their elements in turn, ``ms`` of it in maps, for each batch.

    ``reads`` is how many it goes through side by side; 0: not known.
    """

    node: Node
    ms: float
    elements: float
    reads: int


def _interleaved(trace: Trace) -> Nested | None:
    """The user's interleave without parallel calls whose own maps set the pace."""
    pipe = waited_pipeline(trace)
    if pipe is None or idle_cores(trace) < LEAST_IDLE or trace.producers:
        return None
    for node in pipe.nodes:
        if node.family != "Interleave" or node.asynchronous or not is_user_node(node) or node.written is None:
            continue
        # What its function makes was written in a graph: nobody noted a line.
        inner = [
            n for n in pipe.upstream_nodes(node) if n.family == "Map" and not is_user_node(n) and not n.asynchronous
        ]
        ms, count = sum(n.ms for n in inner), sum(n.elements for n in inner)
        if ms >= 0.5 * pipe.made_ms and 1e3 * ms >= LEAST_US * count:
            return Nested(node, ms, count, int(node.written.detail.get("cycle_length") or 0))
    return None


def _in_turn(trace: Trace) -> Evidence | None:
    nested = _interleaved(trace)
    if nested is None:
        return None
    us, idle = 1e3 * nested.ms / max(nested.elements, 1e-9), idle_cores(trace)
    return Evidence(
        f"the maps inside this interleave make one element at a time, {format_number(us / 1e3, 2)} ms each, "
        f"{format_number(nested.ms)} ms a batch, while {_spare(trace)}",
        {"map_ms": nested.ms, "element_us": us, "idle_cores": idle, "parallelism": 1.0},
        user_lines(nested.node),
    )


def _spare(trace: Trace) -> str:
    """What training leaves of the cores: idle, or to other processes that took the rest."""
    idle, of = idle_cores(trace), f"of {trace.cores:g} cores"
    if stalls.crowding_cores(trace) >= LEAST_IDLE:
        return f"training takes {format_number(max(trace.cores - idle, 0.0), 2)} {of}"
    return f"{format_number(idle, 2)} {of} are idle"
