"""Finds the cause host/predict-in-loop in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.host.predict_in_loop import fix
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules.host import fit_calls
from slowtrain.script.lint_rules.steps import reached_code
from slowtrain.script.navigation import call_index, node_lookup
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Calls of ``predict`` for a few rows, or of ``fit`` for one step, in a loop."""
    known = list(fit_calls.little_calls(source))
    seen = {call for call, _, _ in known}
    for call in dict.fromkeys(one for one in reached_code.small_predict_calls(source) if one not in seen):
        says = "predict() is called for few rows in each iteration of a loop, and each call has a fixed cost"
        yield Spot(*call_index.operation_range(call), says, Prescription("edit", Effect.EQUIVALENT, fix.CALL_MODEL))
    for call, says, changed in known:
        words = fix.PREDICT_ON_BATCH if changed else fix.CALL_MODEL
        words = fix.TRAIN_ON_BATCH if node_lookup.called_name(call) == "fit" else words
        cure = Prescription("edit", Effect.EQUIVALENT, words, edits=changed)
        yield Spot(*call_index.operation_range(call), says, cure)
