"""What a step waits for that waits for its batch, if no specific cause of input/ explains it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from slowtrain.causes.idle_input_wait import mean_sample
from slowtrain.columns.input_pipeline import Node, Pipeline
from slowtrain.model import Category, Effect, Place, Prescription
from slowtrain.number_text import format_count, format_number
from slowtrain.script.locations import source_places
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals import input_feed
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.stalls import machine_cores

READERS = ("TFRecord", "TextLine", "FixedLengthRecord", "Interleave")
# The nearest cause for a stage, by the family of its slowest node.
STAGES: Mapping[str, str] = {
    "Map": "input/sequential-map",
    "Generator": "input/python-input",
    "FlatMap": "input/python-input",
    "Shuffle": "input/shuffle-fill",
    **dict.fromkeys(READERS, "input/unsharded-files"),
}
MIN_STAGE_SHARE = 0.5  # of the wait: the work of a shorter stage does not explain it
MIN_IDLE_CORES = 0.5  # for another thread or process
BASES = frozenset({"PyDataset", "Sequence"})  # of Keras: batches are made in their __getitem__


class GeneralReason(Struct, frozen=True):
    """Why a part of the step is long, as far as it is known. ``cause``: the id under which it is reported.

    ``gone_ms``: what a cure is expected to save, by part. ``computes``: the part is processor time of this process.
    """

    cause: str
    title: str
    says: str
    where: tuple[Place, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    prescriptions: tuple[Prescription, ...] = ()
    gone_ms: Mapping[Category, float] = field(default_factory=dict)
    computes: bool = True


def find_awaited_input(trace: Trace) -> GeneralReason:
    if input_feed.uses_worker_processes(trace):
        return _worker_processes(trace)
    producers = input_feed.user_producers(trace)
    made_ms = sum(p.ms_per_step for p in producers)
    pipe = trace.pipeline
    works = (
        [n for n in input_feed.slowest_stage_nodes(pipe) if n.family != "Prefetch"]
        if pipe is not None and pipe.nodes
        else []
    )
    node = max(works, key=lambda n: n.ms, default=None)
    if producers and made_ms >= 0.5 * (node.ms if node is not None else 0.0):
        return _python_input(trace, made_ms)
    if pipe is not None and node is not None and node.ms > 0:
        return _slow_stage(trace, pipe, node)
    return _unmeasured_input(trace)


def find_core_contention(trace: Trace, waited_ms: float) -> GeneralReason | None:
    """What makes input while the step's own threads wait for a core; None if no input is made meanwhile."""
    waits = f"its threads wait {format_number(waited_ms, 2)} ms for one of {trace.cores:g} cores"
    if input_feed.uses_worker_processes(trace):
        found = _worker_processes(trace)
        title = "Worker processes use the cores that the step needs"
        return replace(found, title=title, says=f"{waits}, on which worker processes make the batches")
    pipe = trace.pipeline
    input_ms = max(pipe.ms if pipe is not None and pipe.nodes else 0.0, sum(p.ms_per_step for p in trace.producers))
    if input_ms < waited_ms:
        return None
    found = find_awaited_input(trace)
    title = "Making the input uses the cores that the step needs"
    return replace(found, title=title, says=f"{waits}, on which its input is made meanwhile; {found.says}")


def _worker_processes(trace: Trace) -> GeneralReason:
    busy = mean_sample(trace, "cpu_mean_share")  # of all cores of the machine, because workers are other processes
    less = "run less Python per batch in __getitem__, or prepare the data once and load it"
    idle = busy is not None and (1 - busy) * machine_cores(trace) >= MIN_IDLE_CORES
    advice = f"{less}; use more worker processes (workers=), because there are idle cores" if idle else less
    return GeneralReason(
        "input/python-input",
        "Worker processes make the batches, and the step waits for them",
        "worker processes make it, in which nothing is recorded, so at most the whole wait can be saved",
        (*source_places.project_places(trace, _batch_method_lines), *_fit_place(trace)),
        {"machine_busy_share": busy} if busy is not None else {},
        (Prescription("advice", Effect.EQUIVALENT, advice),),
        computes=False,
    )


def _batch_method_lines(source: Source) -> Iterator[int]:
    """Lines of methods of the script that make batches for Keras."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and BASES & {ast.unparse(b).rpartition(".")[2] for b in node.bases}:
            yield from (f.lineno for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__getitem__")


def _python_input(trace: Trace, made_ms: float) -> GeneralReason:
    producers = input_feed.user_producers(trace)
    lines = input_feed.merge_producer_lines(producers)
    where = (*(line.place for line in lines[:2]), *(p.place for p in producers[:2] if p.place is not None))
    calls = sum(p.calls_per_step for p in producers)
    hot = f", most of it in line {lines[0].place.line}" if lines else ""
    return GeneralReason(
        "input/python-input",
        "Input is made by Python",
        f"Python makes it: {format_count(calls, 'call')} of {producers[0].qualname} take {format_number(made_ms)} "
        f"ms{hot}",
        where,
        {"made_ms": made_ms, "calls_per_step": calls},
        (Prescription("advice", Effect.EQUIVALENT, "write it with TensorFlow ops in a parallel map, or do it once"),),
    )


def _slow_stage(trace: Trace, pipe: Pipeline, node: Node) -> GeneralReason:
    """The slowest stage of the pipeline, with its line."""
    idle, width = input_feed.idle_cores(trace), node.parallelism or 1.0
    where = (
        input_feed.user_lines(node) or tuple(w.place for w in reversed(pipe.written) if w.place) or _fit_place(trace)
    )
    kind = node.family if input_feed.is_user_node(node) else f"{node.family} (added by Keras or TensorFlow)"
    often = f" of {format_count(node.elements, 'element')}" if node.elements >= 2 else ""
    says = f"its slowest stage is {kind}: {format_number(node.ms)} ms{often}, {format_count(width, 'call')} at once"
    if node.ms < MIN_STAGE_SHARE * trace.mean(Category.INPUT):
        says += ", much less than the wait, because its threads wait for a core or for each other"
    return GeneralReason(
        _stage_cause(node),
        "The step waits for its input",
        f"{says}; {format_number(idle, 2)} cores are idle",
        where,
        {"stage_ms": node.ms, "parallelism": width, "idle_cores": idle},
        (Prescription("advice", Effect.EQUIVALENT, _stage_advice(trace, node, idle)),),
    )


def _stage_cause(node: Node) -> str:
    if node.written is not None and node.written.python:
        return "input/python-input"
    if node.family == "Map" and (node.parallelism or 1.0) >= 2:
        return "input/starved-host"
    return STAGES.get(node.family, "input/unprefetched-input")


def _stage_advice(trace: Trace, node: Node, idle: float) -> str:
    if node.family == "Map" and (node.parallelism or 1.0) < 2 and idle >= MIN_IDLE_CORES:
        return "map with num_parallel_calls=tf.data.AUTOTUNE, and .prefetch(tf.data.AUTOTUNE) as the last stage"
    if trace.steps.source == "fit" and not input_feed.is_user_node(node):
        return "pass larger batches to fit(), or keep the arrays on the device: TensorFlow slices each batch from them"
    return "do less per batch in this stage: once with .cache(), on whole batches, or in the step on the device"


def _unmeasured_input(trace: Trace) -> GeneralReason:
    """No pipeline was measured. Only the lines that fetch its elements are known."""
    asked = [trace.names[int(n)].place for n in dict.fromkeys(trace.lane("next").name.tolist())]
    where = (*(p for p in asked if p is not None), *_fit_place(trace))
    written = [w for p in trace.pipelines for w in p.written]
    pipes = [w.place for w in written if w.place is not None]
    if any(w.family == "Prefetch" for w in written):
        advice = "train for more steps, so that a profiler window shows which stage of the data set is slow"
    else:
        advice = "end the data set with .prefetch(tf.data.AUTOTUNE)"
    return GeneralReason(
        "input/unprefetched-input",
        "The step waits for its input",
        "what makes it was not measured",
        host_work.distinct_places((*pipes[-1:], *where)),
        {},
        (Prescription("advice", Effect.EXACT, advice),),
        computes=False,
    )


def _fit_place(trace: Trace) -> tuple[Place, ...]:
    return tuple(e.place for e in trace.events_of("loop") if e.name == "fit" and e.place is not None)[:1]
