"""The work that ``fix`` leaves to a person, and the limits of what its probes could observe."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator, Sequence

from slowtrain.causes import class_of
from slowtrain.model import Diagnosis, Effect, Place, Prescription, Signal
from slowtrain.model.measurements import Attempt, ManualCure
from slowtrain.number_text import format_count
from slowtrain.script.properties import outside_effects
from slowtrain.script.text.source_file import Source
from slowtrain.verify.measurement.candidate_proof import DiagnosedProbe
from slowtrain.verify.measurement.probe_process import Probe

PROVEN_WITHOUT_EDIT = "measured on the running script without an edit: it must be written by hand"
ALLOW_OPTION = "--allow changes-training"
MAX_LISTED_PLACES = 3


def manual_cures(
    diagnoses: Sequence[Diagnosis], attempts: Sequence[Attempt], allowed: Collection[Effect]
) -> Iterator[ManualCure]:
    """For each remaining cause the first cure in words, and every cure that needs leave to change training."""
    dropped = {(a.name, a.says) for a in attempts if a.why != PROVEN_WITHOUT_EDIT}
    proven = {(a.name, a.says) for a in attempts if a.why == PROVEN_WITHOUT_EDIT}
    for diagnosis in diagnoses:
        if diagnosis.saving.speedup <= 1:
            continue
        asking = [p for p in diagnosis.prescriptions if p.can_be_tried and p.effect not in allowed]
        rest = {(diagnosis.cause, p.says): p for p in diagnosis.prescriptions if p not in asking}
        words = [p for key, p in rest.items() if key in proven or (_needs_person(p) and key not in dropped)]
        where = tuple(str(place) for place in diagnosis.evidence.where[:MAX_LISTED_PLACES])
        for one in (*words[:1], *asking):
            yield ManualCure(diagnosis.cause, one.says, one.effect, where, ALLOW_OPTION if one in asking else None)


def _needs_person(prescription: Prescription) -> bool:
    return not prescription.edits or prescription.kind == "setting"


def visibility_notes(before: DiagnosedProbe) -> Iterator[str]:
    """What the diagnosis of the unchanged script could not see, and side effects of its probes."""
    if before.probe.stopped and any(d.saving.scope == "run" for d in before.findings.diagnoses):
        yield "each probe ended before the script did, so causes of the whole run were not tried"
    unseen = [u.cause for u in before.checkup.unchecked if str(Signal.KERNELS) in u.missing]
    if unseen and len(before.trace.steps) and not before.probe.stopped:
        yield (
            f"it ended after {format_count(len(before.trace.steps), 'step')}, before a profiler window; train for "
            f"longer to check these causes: {', '.join(unseen)}"
        )
    for one in before.checkup.diagnoses:
        verb = class_of(one.cause).measuring_verb
        if one.saving.speedup <= 1 and (verb or any(p.edits for p in one.prescriptions)):
            instead = f"slowtrain {verb} measures it" if verb else "the report of a run has its edit (--html, --json)"
            yield f"{one.cause} costs no time and is not tried here; {instead}"
    unpatched = before.trace.fact("not_redirected") or ()
    if unpatched:
        yield f"writes of {', '.join(map(str, unpatched))} could not be redirected: a probe may have changed files"
    if before.probe.redirected:
        yield f"{format_count(len(before.probe.redirected), 'file')} that the script writes went to a scratch folder"


def unreached_parts(sources: Sequence[Source], measured: Probe) -> Iterator[str]:
    """Parts of the program that no edit reaches, or that the probe ``measured`` did not run."""
    for source in sources:
        for line, name in outside_effects.executed_texts(source):
            yield f"{_line_label(source, line)} runs text as code ({name}), which no edit can change"
    fits = [(source, call) for source in sources for call in outside_effects.keras_fit_calls(source)]
    came_to = [_line_label(s, c.lineno) for s, c in fits if _holds_place(s, c, measured.fits)]
    others = [_line_label(s, c.lineno) for s, c in fits if not _holds_place(s, c, measured.fits)]
    if measured.stopped and came_to and others:
        yield f"the probes ended in the fit of {', '.join(came_to)}, so that of {', '.join(others)} was not measured"


def _holds_place(source: Source, call: ast.Call, places: Sequence[Place]) -> bool:
    return any(p.file == source.file and call.lineno <= p.line <= (call.end_lineno or p.line) for p in places)


def _line_label(source: Source, line: int) -> str:
    return f"{os.path.relpath(source.file)}:{line}"
