"""Finds the cause input/rebuilt-pipeline in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.rebuilt_pipeline import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """``iter`` over a data set in each iteration of a loop of training steps."""
    for event in file_events(source):
        if event.name != "iter" or event.given.get("", 0).kind != "dataset" or not event.loops:
            continue
        if step_loops.step_loop_of(source, event) is event.loops[-1]:
            says = "each training step starts a new iterator, which fills its buffers again, to take one batch"
            yield spots.node_spot(event.node, says, Prescription("edit", Effect.CHANGES_TRAINING, fix.ONE_ITERATOR))
