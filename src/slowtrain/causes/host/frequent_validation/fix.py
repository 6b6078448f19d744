"""Validates and saves less often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes.host.frequent_validation import Validation
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.fixes.loops.periodic_work import run_guarded_less_often
from slowtrain.script.fixes.models import epoch_steps, keras_calls
from slowtrain.script.locations import source_locations, source_places
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: Validation) -> Iterable[Prescription]:
    rarer, places = finding.rarer, finding.places
    if finding.are_checkpoints:
        edits = recorded_edits.first_applicable(trace, places, lambda s, line: run_guarded_less_often(s, line, rarer))
        yield Prescription("edit", Effect.EXACT, f"save {rarer} times less often, or weights only", edits=edits)
        return
    if counted := recorded_edits.first_applicable(trace, places, _validation_steps_edits):
        says = "give validation_steps in batches: samples // batch_size, one pass over the data that repeats itself"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=counted)
    says = f"validate {rarer} times less often (validation_freq={rarer}), or on a part of the data"
    edits = recorded_edits.first_applicable(
        trace, places, lambda s, line: keras_calls.validate_less_often(s, line, rarer)
    )
    edits = edits or recorded_edits.first_applicable(
        trace, places, lambda s, line: periodic_work.enlarge_modulus(s, line, rarer)
    )
    yield Prescription("edit", Effect.EXACT, says, edits=edits)


def find_lines(trace: Trace, finding: Validation) -> Iterable[Place]:
    """Lines that decide how often the script validates: a number, and the condition around the pass."""
    for place in finding.places:
        yield from source_places.file_places(trace, place, _frequency_lines)


def _frequency_lines(source: Source, line: int) -> Iterable[int]:
    guard = periodic_work.modulus_guard(source, line)
    modulus = periodic_work.modulus_of_guard(guard) if guard is not None else None
    if guard is not None and modulus is not None:
        yield from source_locations.literal_line(source, modulus)
        yield guard.lineno


def _validation_steps_edits(source: Source, line: int) -> Sequence[Edit]:
    """Edits for ``validation_steps`` of the ``fit`` at ``line`` if they are a number of samples."""
    for call, given, _ in epoch_steps.steps_in_samples(source):
        named = next((k.arg for k in call.keywords if k.value is given), "")
        if named == "validation_steps" and call.lineno <= line <= (call.end_lineno or line):
            return epoch_steps.count_steps_in_batches(source, call.lineno, named)
    return ()
