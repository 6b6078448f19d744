"""Runs every cause over a trace: what was found, ranked by what it is worth; what is healthy; what is unchecked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from slowtrain.causes import Cause, all_causes, general, general_start
from slowtrain.errors import InputError
from slowtrain.model import Diagnosis, Effect, Evidence, Prescription, Saving, Signal, Unchecked
from slowtrain.pricing import price
from slowtrain.source import edits
from slowtrain.source.reading import shown
from slowtrain.source.reading.recorded import text_of
from slowtrain.trace import Trace
from slowtrain.values import dataclass
from slowtrain.whatif import Remedy, replay

# A smaller speed-up is not reported. Of a step a tenth is what attribution and replay can tell from each other's
# errors (docs/scoreboard.md); of the whole run, whose parts are timed by themselves, a twentieth.
WORTH = {"step": 1.1, "run": 1.05}
LEAST_RUN_SHARE = 0.02  # nor is what saves less than this of the whole run, when it is no part of a step

Found = list[tuple[Diagnosis, Sequence[Remedy]]]


@dataclass(frozen=True)
class Findings:
    """``together`` is what all the diagnoses' cures would save at once; None without diagnoses."""

    diagnoses: tuple[Diagnosis, ...] = ()
    healthy: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    together: Saving | None = None


def examine(trace: Trace, causes: Sequence[Cause] | None = None) -> Findings:
    """Every cause is in exactly one of the three outcomes."""
    found: Found = []
    healthy: list[str] = []
    unchecked: list[Unchecked] = []
    some, causes = causes is not None, all_causes() if causes is None else causes
    for cause in causes:
        wanted = cause.wants(trace)
        missing = tuple(sorted(str(s) for s in wanted - trace.signals))
        if missing:
            unchecked.append(Unchecked(cause.id, missing))
            continue
        one = _one(cause, trace)
        # Too few steps prove neither that a step is slow for this reason nor that it is not; nor do steps of which
        # nobody knows what is in them that it is not.
        few = not trace.enough and (one is None or _of_step(one))
        blind = trace.untold and one is None and not trace.fact("profile")
        if Signal.STEPS in wanted and (few or blind):
            unchecked.append(Unchecked(cause.id, (str(Signal.STEPS),)))
        elif one is None:
            healthy.append(cause.id)
        else:
            found.append(one)
    if told := [] if some else _general(trace, found):
        found += told
        ids = {d.cause for d, _ in told}
        healthy = [id_ for id_ in healthy if id_ not in ids]
        unchecked = [u for u in unchecked if u.cause not in ids]
    # What saves most of the run comes first; between equals, what saves most of its own scope.
    named = {c.id: c for c in causes}
    spoils = {d.cause for d, _ in found if named[d.cause].spoils_in(trace, d.evidence)}
    # The recorded run is often a short sample of a training: what hangs on its length stands behind what a step gains.
    each_step = any(d.saving.scope == "step" and d.saving.speedup >= WORTH["step"] for d, _ in found)
    last = {d.cause for d, _ in found if each_step and named[d.cause].hangs_on_run_length_in(trace, d.evidence)}

    def group(one: Diagnosis) -> int:
        """0: what costs more the longer the run; 1: what gains whatever its length; 2: what hangs on it; 3: no gain."""
        if one.cause in last:
            return 2
        if last and one.saving.speedup <= 1.0:
            return 3
        return 0 if named[one.cause].grows and one.saving.speedup >= WORTH[one.saving.scope] else 1

    found.sort(key=lambda f: (f[0].cause not in spoils, group(f[0]), *_rank(f[0])))
    found = _gentler_first(found)
    remedies = [r for _, several in found for r in several]
    scope = "step" if trace.step_ms else "run"
    together = price(trace, remedies, scope, each_at_its_end=True) if remedies else None
    return Findings(tuple(d for d, _ in found), tuple(healthy), tuple(unchecked), together)


ALIKE = 0.95  # of what another saves: two prices are no closer to each other than they are to the truth


def _gentler_first(
    found: list[tuple[Diagnosis, Sequence[Remedy]]],
) -> list[tuple[Diagnosis, Sequence[Remedy]]]:
    """Of two neighbours that save about the same of a step, the one whose cure changes less comes first."""
    ordered = list(found)
    for i in range(len(ordered) - 1):
        (one, _), (other, _) = ordered[i : i + 2]
        steps = one.saving.scope == other.saving.scope == "step"
        alike = steps and other.saving.ms >= ALIKE * one.saving.ms > 0
        if alike and _changes(other) < _changes(one):
            ordered[i : i + 2] = ordered[i + 1], ordered[i]
    return ordered


def _changes(one: Diagnosis) -> tuple[int, bool]:
    """How much the gentlest cure changes of what is trained; of two alike the one that ``fix`` makes comes first."""
    return min(((EFFECTS.index(p.effect), not p.edits) for p in one.prescriptions), default=(len(EFFECTS), True))


def _general(trace: Trace, found: Found) -> Found:
    """What is told of the largest part that nothing found is about: of a step, or of a run that is hardly steps."""
    if trace.fact("doctor") or trace.fact("profile"):  # a profile tells neither lines nor what is outside its window
        return []
    told: Found = []
    for part in general.unexplained_parts(trace, found) if trace.enough and not trace.untold else ():
        reason = general.general_reason(trace, part)
        if reason is not None and reason.cause not in {d.cause for d, _ in (*found, *told)}:
            remedies = general.remedies(trace, reason)
            evidence = general.evidence(trace, part, reason)
            one = _told(trace, reason.cause, reason.title, evidence, remedies, reason.prescriptions, "step")
            if part is general.largest_part(trace) or one[0].saving.speedup >= WORTH["step"]:
                told.append(one)
    start = general_start.reason(trace) if not found and (not trace.enough or trace.untold) else None
    if start is not None:
        told.append(_told(trace, start.cause, start.title, start.evidence, start.remedies, start.prescriptions, "run"))
    return told


def _told(
    trace: Trace,
    cause: str,
    title: str,
    evidence: Evidence,
    remedies: Sequence[Remedy],
    prescriptions: Sequence[Prescription],
    scope: str,
) -> tuple[Diagnosis, Sequence[Remedy]]:
    saving = price(trace, remedies, scope)
    share = 1 - replay(trace, remedies).run_ms / trace.run_ms if trace.run_ms else 0.0
    cures = tuple(_shown(trace, p) for p in prescriptions)
    return Diagnosis(cause, title, evidence, saving, share, cures), remedies


EFFECTS = tuple(Effect)  # as they are listed: exact, equivalent, changes training
MOST_SEEN = 2  # lines of the text beside those that were measured


def _rank(one: Diagnosis) -> tuple[float, float, tuple[int, bool], str]:
    """What saves most comes first; of two that save alike the one whose cure changes least of what is trained."""
    return -round(one.run_share, 3), -round(one.saving.speedup, 2), _changes(one), one.cause


def _of_step(one: tuple[Diagnosis, Sequence[Remedy]]) -> bool:
    return one[0].saving.scope == "step"


def _one(cause: Cause, trace: Trace) -> tuple[Diagnosis, Sequence[Remedy]] | None:
    evidence = cause.examine(trace)
    if evidence is None:
        return None
    remedies = list(cause.remedy(trace, evidence))
    scope = cause.scope_in(trace, evidence)
    saving = price(trace, remedies, scope)
    share = 1 - replay(trace, remedies).run_ms / trace.run_ms if trace.run_ms else 0.0
    small = saving.speedup < WORTH[scope] or (scope == "run" and share < LEAST_RUN_SHARE)
    # Of a machine's facts alone nothing is timed: what is wrong there is told whatever it costs.
    if small and not cause.matters_in(trace) and not trace.fact("doctor"):
        return None
    prescriptions = tuple(_shown(trace, p) for p in cause.prescribe(trace, evidence))
    return Diagnosis(cause.id, cause.title, _pointed(cause, trace, evidence), saving, share, prescriptions), remedies


def _pointed(cause: Cause, trace: Trace, evidence: Evidence) -> Evidence:
    """With the lines that show the same cause in the text alone behind those that were measured."""
    seen = shown.lines(trace, lambda source: (spot.start[0] for spot in cause.spot(source)))
    return replace(evidence, where=tuple(dict.fromkeys((*evidence.where, *seen[:MOST_SEEN]))))


def _shown(trace: Trace, prescription: Prescription) -> Prescription:
    """With the diff of its edits; without edits where they would not give a file that Python can read."""
    parts = []
    for file in dict.fromkeys(edit.file for edit in prescription.edits):
        source = text_of(trace, file)
        try:
            if source is None:
                raise InputError(f"{file} cannot be read")
            changed = edits.changed(source, [e for e in prescription.edits if e.file == file])
            compile(changed, file, "exec", dont_inherit=True)
        except (InputError, SyntaxError, ValueError):
            return replace(prescription, edits=())
        parts.append(edits.diff(_relative(trace, file), source.text, changed))
    return replace(prescription, diff="".join(parts) or None)


def _relative(trace: Trace, file: str) -> str:
    path = PurePath(file)
    below = path.is_relative_to(trace.root) if trace.root else False
    return str(path.relative_to(trace.root) if below else path).lstrip("/")
