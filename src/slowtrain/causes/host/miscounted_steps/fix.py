"""Counts the steps of an epoch in batches, or goes over the data once."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from slowtrain.causes.host.miscounted_steps import MiscountFinding
from slowtrain.columns.spans import Event
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.models import epoch_steps
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.navigation import call_index, node_lookup, setting_origins
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

COUNT_BATCHES = "give steps_per_epoch in batches: samples // batch_size"
REMOVE_REPEAT = "take .repeat(n) out of the data set, or run one epoch"


def find_cures(trace: Trace, finding: MiscountFinding) -> Iterable[Prescription]:
    kinds = {m.kind for m in finding.miscounts}
    if "steps" in kinds:
        edits = recorded_edits.first_applicable(trace, finding.places, epoch_steps.count_steps_in_batches)
        yield Prescription("edit", Effect.CHANGES_TRAINING, COUNT_BATCHES, edits=edits)
    if "length" in kinds:
        length = "let __len__ return the number of batches, ceil(samples / batch_size)"
        yield Prescription("edit", Effect.CHANGES_TRAINING, length)
    if "repeat" in kinds:
        edits = recorded_edits.first_applicable(trace, finding.places, epoch_steps.remove_repeat)
        yield Prescription("edit", Effect.CHANGES_TRAINING, REMOVE_REPEAT, edits=edits)


def smaller_batch(trace: Trace, fit: Event, samples: int, batch: int) -> int:
    """The batch size below ``batch`` with which the steps of ``fit`` cover the samples; 0 if there is none.

    The number of steps is written as a quotient. A plain number is taken to be intended.
    """
    place = fit.place
    source = recorded_source(trace, place.file) if place is not None else None
    if place is None or source is None:
        return 0
    calls = call_index.index_of(source).calls_of("fit")
    given = [
        node_lookup.argument_value(call, "steps_per_epoch")
        for call in calls
        if call.lineno <= place.line <= (call.end_lineno or call.lineno)
    ]
    if not any(is_quotient(source, steps) for steps in given):
        return 0
    return smaller_batch_size(int(fit.data.get("steps_per_epoch") or 0), samples, batch)


def is_quotient(source: Source, given: ast.expr | None) -> bool:
    """Whether a number is a quotient, here or where its name is assigned."""
    written = setting_origins.written_value(source, given) if given is not None else None
    inside = [n for one in (given, written) if one is not None for n in syntax_tree.walk(one)]
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, (ast.FloorDiv, ast.Div)) for n in inside)


def smaller_batch_size(steps: int, rows: int, batch: int) -> int:
    """Return the smaller batch size with which so many steps cover the data; 0 if there is none."""
    other = rows // steps if 0 < steps < rows else 0
    return other if 1 < other <= batch // 2 and rows // other == steps else 0
