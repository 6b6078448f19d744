"""Where the cause input/python-input shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.input.python_input.fix import WHOLE_BATCHES
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.fixes.input import generator_edits
from slowtrain.script.interpreter.engine import step_loops
from slowtrain.script.lint_rules.input import image_generators
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.navigation import call_index
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Samples in memory that are returned one by one; loops over numbers or samples in code that makes input."""
    for slow in reached_code.slow_input_parts(source):
        if slow.call is not None:
            made = tuple(generator_edits.use_tensor_slices(source, edits.node_end(slow.call.func)[0]))
            exact = not step_loops.fits_several_epochs(source)  # see dataset_caches.is_asked_beyond_end
            cure = Prescription("edit", Effect.EXACT if exact else Effect.EQUIVALENT, WHOLE_BATCHES, edits=made)
        else:
            cure = Prescription("edit", Effect.EQUIVALENT, slow.instead)
        yield Spot(slow.start, slow.end, slow.says, cure)
    for call, says in image_generators.single_threaded_generators(source):
        yield Spot(*call_index.operation_range(call), says, image_generators.READ_PRESCRIPTION)
