"""Finds the cause host/frequent-validation in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.host import per_step_work, validation_calls
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Validation on more data than is trained on between two validations, by sizes in the text."""
    known = (
        *validation_calls.long_fit_validations(source),
        *validation_calls.long_counted_validations(source),
        *validation_calls.long_loop_evaluations(source),
    )
    others = () if known else (*per_step_work.long_validations(source), *per_step_work.long_fit_validations(source))
    for given, says, changed in (*known, *((node, says, ()) for node, says in others)):
        rarer = "validate less often (validation_freq), or on a part of the data"
        cure = Prescription("edit", Effect.EXACT, rarer, edits=changed)
        yield Spot(edits.node_start(given), edits.node_end(given), says, cure)
