"""A map of the user's that runs one call at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Effect, Evidence, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import input_edits, recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import stalls
from slowtrain.trace.signals.input_feed import calls_per_batch, idle_cores, slow_user_maps, user_lines, waited_pipeline
from slowtrain.whatif import Remedy, Supply

MIN_THREADED_CALL_US = 30.0  # assumed: a shorter call is mostly overhead, which threads do not lower
MIN_IDLE_CORES = 0.25


@dataclass(frozen=True)
class SequentialUserMap:
    """A map that sets the pace of the pipeline, and its calls for each batch."""

    pipeline: Pipeline
    node: Node
    calls: float

    def evidence(self, trace: Trace) -> Evidence:
        node = self.node
        call_us = 1e3 * node.ms / max(self.calls, 1e-9)
        return Evidence(
            f"the map transforms one element at a time, {format_number(call_us / 1e3, 2)} ms each, "
            f"{format_number(node.ms)} ms a batch, while {idle_cores_text(trace)}",
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

    def cures(self, trace: Trace) -> Iterable[Prescription]:
        line, written = input_edits.mapped_function_line(self.node), self.node.written
        is_deterministic = written is not None and bool(written.ops) and not written.random
        yield Prescription(
            "edit",
            Effect.EXACT if is_deterministic else Effect.EQUIVALENT,
            "give map num_parallel_calls=tf.data.AUTOTUNE",
            edits=recorded_edits.first_applicable(
                trace, user_lines(self.node)[:1], lambda s, at: dataset_edits.parallelise_map(s, at, line)
            ),
            treatment="parallel-map",
        )


def find_sequential_map(trace: Trace) -> SequentialUserMap | None:
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


def idle_cores_text(trace: Trace) -> str:
    """How many cores are idle; or how many training uses, if other processes take the rest."""
    idle, of = idle_cores(trace), f"of {trace.cores:g} cores"
    if stalls.crowding_cores(trace) >= MIN_IDLE_CORES:
        return f"training takes {format_number(max(trace.cores - idle, 0.0), 2)} {of}"
    return f"{format_number(idle, 2)} {of} are idle"
