"""Lifts the limits on the threads of a data set, or moves its work to other computers."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from slowtrain.causes.input.starved_host import StarvedNode
from slowtrain.causes.input.starved_host.data_service import distribute_input
from slowtrain.model import Category, Edit, Effect, Place, Prescription
from slowtrain.number_text import format_count
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.input_feed import epoch_result_bytes

ONE_THREAD_CURE = "remove the limit on the data set's threads (private_threadpool_size)"

MAX_SENT_BYTES = 2**30  # of arrays in a data set's graph, which the dispatcher gets; TensorFlow's limit is twice that


def find_cures(trace: Trace, finding: StarvedNode) -> Iterable[Prescription]:
    if finding.runs_single_calls:
        freed = _edits_lifting_limit(trace, finding)
        written = trace.pipeline.written if trace.pipeline is not None else ()
        # Threads draw at the same time: the order of calls decides which element gets which random number.
        drawn = any(w.random or (w.family == "Map" and not w.ops) for w in written)
        effect = Effect.EQUIVALENT if drawn else Effect.EXACT
        yield Prescription("edit", effect, ONE_THREAD_CURE, edits=freed)
        if not freed and (
            unordered := recorded_edits.first_applicable(trace, finding.where, dataset_edits.allow_any_order)
        ):
            # Nothing limits its threads. In order, calls that are done wait for a slow one in front of them.
            says = "take elements as they are ready, not in their order (deterministic=False)"
            yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=unordered)
    yield Prescription("advice", Effect.EXACT, "give the process more cores, or its input less work for each element")
    runs_python = trace.pipeline is not None and any(one.python for one in trace.pipeline.written)
    if not finding.few_threads and not runs_python:
        yield _other_computers(trace, finding)


def _other_computers(trace: Trace, finding: StarvedNode) -> Prescription:
    """tf.data service. No probe on this computer can show its gain, because its workers need the same cores."""
    busy_ms = trace.step_ms - trace.mean(Category.INPUT)
    cores = f": {format_count(ceil(finding.node.ms / busy_ms), 'core')} there would keep up" if busy_ms > 0 else ""
    line = finding.node.function_line
    found = recorded_edits.first_applicable(trace, finding.where, lambda s, at: distribute_input(s, at, line))
    says = (
        f"let other computers make the batches with tf.data service{cores}; each element comes once per epoch, in "
        "another order; on this computer alone nothing is gained (the two commands to try it: slowtrain explain "
        "input/starved-host)"
    )
    return Prescription("setting", Effect.CHANGES_TRAINING, says, edits=found if _can_be_sent(trace) else ())


def _can_be_sent(trace: Trace) -> bool:
    """Whether the arrays that the data set reads are small enough for its graph."""
    pipe = trace.pipeline
    sources = [node for node in pipe.nodes if not node.inputs] if pipe is not None else []
    sizes = [epoch_result_bytes(pipe, node) for node in sources] if pipe is not None else []
    return all(size is None or size <= MAX_SENT_BYTES for size in sizes)


def find_lines(trace: Trace, finding: StarvedNode) -> Iterable[Place]:
    """The lines that set the limit."""
    return (Place(edit.file, edit.start[0]) for edit in _edits_lifting_limit(trace, finding))


def _edits_lifting_limit(trace: Trace, finding: StarvedNode) -> tuple[Edit, ...]:
    return recorded_edits.first_applicable(trace, finding.where, dataset_edits.remove_thread_limit)
