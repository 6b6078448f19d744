"""Finds the cause host/miscounted-steps in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.miscounted_steps import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.models import keras_calls
from slowtrain.script.lint_rules.host import epoch_step_counts, per_step_work
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Steps counted in samples, and data sets that repeat themselves for the epochs of ``fit``."""
    counted, twice = (
        tuple(epoch_step_counts.steps_in_samples(source)),
        tuple(epoch_step_counts.doubly_repeated_datasets(source)),
    )
    for node, says in () if counted or twice else per_step_work.miscounted_epochs(source):
        batches = "count batches: steps_per_epoch = samples // batch_size, and one pass over the data set in an epoch"
        cure = Prescription("edit", Effect.CHANGES_TRAINING, batches)
        yield Spot(edits.node_start(node), edits.node_end(node), says, cure)
    for call, given, says in counted:
        changed = tuple(keras_calls.count_steps_in_batches(source, call.lineno))
        cure = Prescription("edit", Effect.CHANGES_TRAINING, fix.COUNT_BATCHES, edits=changed)
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
    for call, says in twice:
        changed = tuple(keras_calls.remove_repeat(source, edits.node_end(call.func)[0]))
        cure = Prescription("edit", Effect.CHANGES_TRAINING, fix.REMOVE_REPEAT, edits=changed)
        yield Spot(*call_index.operation_range(call), says, cure)
