"""Lifts the limits on the threads of a data set."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.starved_host import StarvedNode
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace

ONE_THREAD_CURE = "remove the limit on the data set's threads (private_threadpool_size)"


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


def find_lines(trace: Trace, finding: StarvedNode) -> Iterable[Place]:
    """The lines that set the limit."""
    return (Place(edit.file, edit.start[0]) for edit in _edits_lifting_limit(trace, finding))


def _edits_lifting_limit(trace: Trace, finding: StarvedNode) -> tuple[Edit, ...]:
    return recorded_edits.first_applicable(trace, finding.where, dataset_edits.remove_thread_limit)
