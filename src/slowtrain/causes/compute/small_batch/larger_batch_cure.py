"""The cure of a small batch: a larger one, of a size that is known or usual."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.models import batch_sizes, keras_calls
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve, op_work
from slowtrain.whatif import Stretch

MAX_GOAL_BATCH = 64  # a usual size; larger ones are proposed only if they were measured
WINDOWS_CURE = "cut the sequence into windows and train on batches of them"


def goal_batch(trace: Trace, size: float) -> float | None:
    """The batch to use: a power of two. None if the data has too few samples for twice the batch."""
    rows = op_work.fit_rows(trace) or op_work.longest_epoch_rows(trace, size) or 0
    goal = min(MAX_GOAL_BATCH, rows / batch_curve.MIN_STEPS_PER_EPOCH)
    return float(2 ** int(np.log2(goal))) if goal >= 2 * size else None


def larger_batch_says(goal: float, more: bool) -> str:
    """``more``: whether an even larger batch may gain as well."""
    return f"use a batch of {goal:.0f}{' or more' if more else ''}, with a learning rate to match"


def stretch_steps(size: float, goal: float, goal_ms: float) -> Stretch:
    """The remedy: fewer steps, of ``goal_ms`` each."""
    return Stretch(size / goal, goal_ms, spread=(0.9, 1.03))


def larger_batch_cures(
    trace: Trace, where: Sequence[Place], size: float, goal: float, *, more: bool
) -> Iterable[Prescription]:
    edits = _batch_edits(trace, where, int(size), int(goal))
    yield Prescription("edit", Effect.CHANGES_TRAINING, larger_batch_says(goal, more), edits=edits)
    if trace.steps.source == "fit" and not trace.on_jax:
        places = [e.place for e in trace.events_of("compile") if e.place is not None]
        several = recorded_edits.first_applicable(trace, places, keras_calls.run_several_steps_per_call)
        says = f"compile(steps_per_execution={keras_calls.STEPS_PER_CALL}): the same updates with fewer calls"
        yield Prescription("setting", Effect.EXACT, says, edits=several)


def batch_places(trace: Trace) -> tuple[Place, ...]:
    """Lines that set the batch size, then those of ``batch()`` and ``fit()``."""
    fits = sorted((e for e in trace.events_of("loop") if e.name == "fit" and e.place), key=lambda e: -e.ms)
    batched = [w.place for p in trace.pipelines for w in p.written if w.family == "Batch" and w.place]
    places = [p for p in (*batched, *(e.place for e in fits), trace.steps.place) if p is not None]
    sizes = (
        p for place in places for p in source_locations.file_places(trace, place, source_locations.batch_size_line)
    )
    return source_locations.merge_places(sizes, places)[:3]


def _batch_edits(trace: Trace, where: Sequence[Place], size: int, goal: int) -> tuple[Edit, ...]:
    """The larger batch at the first of the places that sets the size."""
    for file in dict.fromkeys(p.file for p in where):
        source = recorded_source(trace, file)
        lines = [p.line for p in where if p.file == file]
        edits = batch_sizes.enlarge_batches(source, lines, size, goal) if source is not None else ()
        if edits:
            return edits
    return ()
