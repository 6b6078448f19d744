"""Where the cause input/python-input shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.python_input.fix import WHOLE_BATCHES
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.input import generators
from slowtrain.source.spots import reached
from slowtrain.source.spots.input import images


def find_spots(source: Source) -> Iterable[Spot]:
    """Samples in memory that are returned one by one; loops over numbers or samples in code that makes input."""
    for slow in reached.slow_parts(source):
        if slow.call is not None:
            made = tuple(generators.as_arrays(source, edits.node_end(slow.call.func)[0]))
            exact = not step_loops.fits_several_epochs(source)  # see dataset_caches.is_asked_beyond_end
            cure = Prescription("edit", Effect.EXACT if exact else Effect.EQUIVALENT, WHOLE_BATCHES, edits=made)
        else:
            cure = Prescription("edit", Effect.EQUIVALENT, slow.instead)
        yield Spot(slow.start, slow.end, slow.says, cure)
    for call, says in images.unhelped(source):
        yield Spot(*call_index.operation_range(call), says, images.READ)
