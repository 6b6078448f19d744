"""Python behind a tf.data pipeline: what it costs, and the pipeline without that cost."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.causes.input.python_input.python_work import MAX_WAITING_SHARE, MIN_LOOP_SHARE, PythonWork
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Place
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.edits import input_edits
from slowtrain.script.locations.recorded_sources import is_interpreted, recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals import buffers_and_caches, input_feed
from slowtrain.trace.signals.host import host_work, stalls
from slowtrain.whatif import held_up_ms

OPS_CALL_MS = 0.1  # a call for one element of some dozens of small TensorFlow ops: 0.11 and 0.18 ms in recordings
MAX_OPS_SHARE = 0.5  # of the time of a loop in bytecode: TensorFlow ops that take more are no cure
DRAWN_SAMPLES_LEFT = 0.3  # assumed: arrays still have to be drawn


def find_pipeline_work(trace: Trace) -> PythonWork | None:
    """The Python of a pipeline that the steps wait for, or that holds the interpreter lock while they run."""
    producers = input_feed.user_producers(trace)
    ms = sum(p.ms_per_step for p in producers)
    wait = trace.mean(Category.INPUT)
    held_ms = min(ms, held_up_ms(trace)) if not input_feed.usual_step_waits(trace) else 0.0
    if not producers or wait + held_ms < input_feed.MIN_WAIT_SHARE * trace.step_ms or ms < 0.5 * wait:
        return None
    lines = input_feed.merge_producer_lines(producers)
    calls = sum(p.calls_per_step for p in producers)
    interpreted = is_interpreted(lines, ms / max(calls, 1e-9))
    if _idle_ms(trace) > MAX_WAITING_SHARE * min(ms, trace.step_ms) and not interpreted:
        return None
    pipe = trace.pipeline
    hot = [line.place for line in lines[:3]]
    others = [*(p.place for p in producers[:2]), *(w.place for w in (pipe.python if pipe else ()))]
    where = host_work.distinct_places((*hot, *source_locations.wrapping_places(trace, hot[:1]), *others))
    kind, left_share, steps_share = _kind_and_gain(trace, calls, ms, interpreted, where)
    return PythonWork(kind, ms, calls, where, left_share, steps_share, held_ms=held_ms)


def _idle_ms(trace: Trace) -> float:
    """Ms a step without processor time. Python that waits for a core that others took is not idle."""
    busy = input_feed.busy_cores(trace)
    return trace.step_ms * max(1 - busy - stalls.crowding_cores(trace), 0.0) if busy is not None else 0.0


def _kind_and_gain(
    trace: Trace, calls: float, ms: float, interpreted: bool, where: tuple[Place, ...]
) -> tuple[str, float, float]:
    """What the Python does, the share of its time that a cure leaves, and the part of the steps that gain."""
    pipe = trace.pipeline
    epochs = buffers_and_caches.expected_passes(trace, pipe) if pipe else 1
    random = any((text := recorded_source(trace, p.file)) is not None and text.random_at(p.line) for p in where[:2])
    is_generator = pipe is None or any(n.name == "Generator" for n in pipe.nodes)
    is_generator = is_generator or (pipe is not None and any("python" in w.detail for w in pipe.written))
    ready = min(calls * input_feed.READY_ELEMENT_US / 1e3 / ms, 1.0)
    if calls >= input_edits.MIN_SAMPLE_CALLS and is_generator and not random:
        return "samples", ready, 1.0
    if interpreted:
        # In a map, some tens of TensorFlow ops take over. They are called for each element; or for a whole batch, if
        # they are hardly faster than the loop.
        ops = calls * OPS_CALL_MS / ms if not is_generator and calls >= input_edits.MIN_SAMPLE_CALLS else 0.0
        return "loop", max(MIN_LOOP_SHARE, ops if ops < MAX_OPS_SHARE else 0.0), 1.0
    if calls >= input_edits.MIN_SAMPLE_CALLS and is_generator:
        return "samples", DRAWN_SAMPLES_LEFT, 1.0
    if not random and epochs > 1:
        return "once", ready, 1 - 1 / epochs
    return "work", 1 / max(1 + input_feed.idle_cores(trace), 1.0), 1.0


def cured_pipeline(pipe: Pipeline | None, work: PythonWork) -> Pipeline | None:
    """The pipeline with less work in the nodes that run Python; None if they have no counters."""
    if pipe is None:
        return None
    changed = [cured for node in pipe.nodes if (cured := _cured_node(node, work)) is not None]
    return pipe.with_nodes(*changed) if any(n.ms > 0 for n in pipe.nodes) and changed else None


def _cured_node(node: Node, work: PythonWork) -> Node | None:
    if node.name == "Generator" or (node.written is not None and node.family == "Map" and node.written.python):
        return replace(node, ms=node.ms * work.left_share)
    if work.kind != "samples":
        return None
    if node.family == "Map" and node.written and input_feed.can_take_batches(node.written):
        # Whole batches arrive: the maps behind are called once for each.
        batch_ms = input_feed.BATCH_CALL_MS + work.calls * input_feed.READY_ELEMENT_US / 1e3
        return replace(node, ms=min(node.ms, batch_ms))
    return replace(node, ms=0.0) if node.family == "FlatMap" else None
