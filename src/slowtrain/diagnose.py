"""Runs every cause over a trace: causes found, ranked by their saving; healthy ones; unchecked ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause, all_causes, class_of, general_reason, short_run_reason
from slowtrain.errors import InputError
from slowtrain.model import Diagnosis, Effect, Evidence, Prescription, Saving, Signal, Unchecked
from slowtrain.pricing import price_remedies
from slowtrain.script.locations import source_places
from slowtrain.script.locations.recorded_sources import recorded_source
from slowtrain.script.text import edits
from slowtrain.trace import Trace
from slowtrain.whatif import Remedy, replay_remedies

# A smaller speed-up is not reported. For a step it is a tenth, which attribution and replay can tell from their own
# errors (docs/scoreboard.md). For the whole run, whose parts are timed separately, it is a twentieth.
MIN_SPEEDUP_BY_SCOPE = {"step": 1.1, "run": 1.05}
MIN_SAVED_RUN_SHARE = 0.02  # of the whole run: a smaller saving outside the steps is not reported either


class Diagnosed(Struct, frozen=True):
    """A diagnosis with what decides its place among the others."""

    diagnosis: Diagnosis
    remedies: Sequence[Remedy]
    spoils: bool = False
    grows: bool = False
    hangs_on_run_length: bool = False

    @property
    def is_worth_it(self) -> bool:
        saving = self.diagnosis.saving
        return saving.speedup >= MIN_SPEEDUP_BY_SCOPE[saving.scope]


class Findings(Struct, frozen=True):
    """``together``: what the cures of all diagnoses would save at once; None without diagnoses."""

    diagnoses: tuple[Diagnosis, ...] = ()
    healthy: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    together: Saving | None = None


def diagnose_trace(trace: Trace, causes: Sequence[Cause[Any]] | None = None) -> Findings:
    """Puts every cause into exactly one of the three outcomes."""
    found: list[Diagnosed] = []
    healthy: list[str] = []
    unchecked: list[Unchecked] = []
    for cause in all_causes() if causes is None else causes:
        outcome = _judge_cause(cause, trace)
        if isinstance(outcome, Diagnosed):
            found.append(outcome)
        elif isinstance(outcome, Unchecked):
            unchecked.append(outcome)
        else:
            healthy.append(cause.id)
    general_ones = _general_diagnoses(trace, found) if causes is None else []
    ids = {one.diagnosis.cause for one in general_ones}
    found = _rank_diagnoses([*found, *general_ones])
    remedies = [remedy for one in found for remedy in one.remedies]
    scope = "step" if trace.step_ms else "run"
    together = price_remedies(trace, remedies, scope, each_at_its_end=True) if remedies else None
    return Findings(
        tuple(one.diagnosis for one in found),
        tuple(id_ for id_ in healthy if id_ not in ids),
        tuple(u for u in unchecked if u.cause not in ids),
        together,
    )


def _judge_cause(cause: Cause[Any], trace: Trace) -> Diagnosed | Unchecked | None:
    """The cause's outcome; None if the trace is free of it."""
    wanted = cause.wants(trace)
    if missing := wanted - trace.signals:
        return Unchecked(cause.id, tuple(sorted(map(str, missing))))
    one = _diagnose_cause(cause, trace)
    # Too few steps prove neither that a step is slow for this reason nor the opposite. Steps with unknown contents
    # cannot prove the opposite.
    few = not trace.has_enough_steps and (one is None or one.diagnosis.saving.scope == "step")
    blind = trace.is_mostly_unattributed and one is None and not trace.fact("profile")
    if Signal.STEPS in wanted and (few or blind):
        return Unchecked(cause.id, (str(Signal.STEPS),))
    return one


def _rank_diagnoses(found: Sequence[Diagnosed]) -> list[Diagnosed]:
    """The diagnoses in the order in which they are reported.

    The largest saving of the run comes first; of equal ones, the largest saving of its own scope. The recorded run is
    often a short sample of a training. So a saving that depends on its length comes after one of a step.
    """
    each_step = any(one.diagnosis.saving.scope == "step" and one.is_worth_it for one in found)
    last = {one.diagnosis.cause for one in found if each_step and one.hangs_on_run_length}

    def group(one: Diagnosed) -> int:
        """0: costs grow with the run; 1: gains at any length; 2: depends on the length; 3: no gain."""
        if one.diagnosis.cause in last:
            return 2
        if last and one.diagnosis.saving.speedup <= 1.0:
            return 3
        return 0 if one.grows and one.is_worth_it else 1

    return _gentler_first(sorted(found, key=lambda one: (not one.spoils, group(one), *_diagnosis_rank(one.diagnosis))))


MIN_EQUAL_SAVING_SHARE = 0.95  # ratio of two savings that counts as equal: prices are no more accurate than that


def _gentler_first(found: list[Diagnosed]) -> list[Diagnosed]:
    """Orders neighbours with about the same saving of a step: the cure that changes less comes first."""
    ordered = list(found)
    for i in range(len(ordered) - 1):
        one, other = ordered[i].diagnosis, ordered[i + 1].diagnosis
        steps = one.saving.scope == other.saving.scope == "step"
        alike = steps and other.saving.ms >= MIN_EQUAL_SAVING_SHARE * one.saving.ms > 0
        if alike and _change_rank(other) < _change_rank(one):
            ordered[i : i + 2] = ordered[i + 1], ordered[i]
    return ordered


def _change_rank(one: Diagnosis) -> tuple[int, bool]:
    """How much the gentlest cure changes of training; of two equal ones, the one that ``fix`` applies comes first."""
    return min(
        ((EFFECT_ORDER.index(p.effect), not p.edits) for p in one.prescriptions), default=(len(EFFECT_ORDER), True)
    )


def _general_diagnoses(trace: Trace, found: Sequence[Diagnosed]) -> list[Diagnosed]:
    """Diagnoses of the largest part that no cause explains: of a step, or of a run that is hardly steps."""
    if trace.fact("doctor") or trace.fact("profile"):  # a profile has neither lines nor anything outside its window
        return []
    general_ones: list[Diagnosed] = []
    priced = [(one.diagnosis, one.remedies) for one in found]
    are_steps_known = trace.has_enough_steps and not trace.is_mostly_unattributed
    for part in general_reason.unexplained_parts(trace, priced) if are_steps_known else ():
        reason = general_reason.general_reason(trace, part)
        if reason is not None and reason.cause not in {one.diagnosis.cause for one in (*found, *general_ones)}:
            one = _diagnosis_of_rest(trace, reason)
            if part is general_reason.largest_part(trace) or one.is_worth_it:
                general_ones.append(one)
    start = short_run_reason.find_short_run_reason(trace) if not found and not are_steps_known else None
    return [*general_ones, *([_diagnosis_of_rest(trace, start)] if start is not None else [])]


def _diagnosis_of_rest(trace: Trace, rest: general_reason.GeneralFinding) -> Diagnosed:
    saving = price_remedies(trace, rest.remedies, rest.scope)
    cures = tuple(_with_diff(trace, p) for p in rest.prescriptions)
    run_share = _saved_run_share(trace, rest.remedies)
    one = Diagnosis(rest.cause, rest.title, rest.evidence, saving, run_share, cures)
    return Diagnosed(one, rest.remedies, grows=class_of(rest.cause).grows)


def _saved_run_share(trace: Trace, remedies: Sequence[Remedy]) -> float:
    return 1 - replay_remedies(trace, remedies).run_ms / trace.run_ms if trace.run_ms else 0.0


EFFECT_ORDER = tuple(Effect)  # in the order of the enumeration: exact, equivalent, changes training
MAX_LINT_PLACES = 2  # lines from lint after those that were measured


def _diagnosis_rank(one: Diagnosis) -> tuple[float, float, tuple[int, bool], str]:
    """The largest saving comes first; of equal ones, the one whose cure changes least of training."""
    return -round(one.run_share, 3), -round(one.saving.speedup, 2), _change_rank(one), one.cause


def _diagnose_cause(cause: Cause[Any], trace: Trace) -> Diagnosed | None:
    finding = cause.find(trace)
    if finding is None:
        return None
    remedies = list(cause.remedies(trace, finding))
    scope = cause.scope_in(trace, finding)
    saving = price_remedies(trace, remedies, scope)
    share = _saved_run_share(trace, remedies)
    small = saving.speedup < MIN_SPEEDUP_BY_SCOPE[scope] or (scope == "run" and share < MIN_SAVED_RUN_SHARE)
    # Facts of a machine alone have no timings, so what is wrong there is reported at any cost.
    if small and not cause.matters_in(trace) and not trace.fact("doctor"):
        return None
    prescriptions = tuple(_with_diff(trace, p) for p in cause.cures(trace, finding))
    evidence = _with_lint_places(cause, trace, cause.evidence(trace, finding))
    return Diagnosed(
        Diagnosis(cause.id, cause.title, evidence, saving, share, prescriptions),
        remedies,
        spoils=cause.spoils_in(trace, finding),
        grows=cause.grows,
        hangs_on_run_length=cause.hangs_on_run_length_in(trace, finding),
    )


def _with_lint_places(cause: Cause[Any], trace: Trace, evidence: Evidence) -> Evidence:
    """Evidence with the lines from lint after the measured lines."""
    seen = source_places.project_places(trace, lambda source: (spot.start[0] for spot in cause.spot(source)))
    return replace(evidence, where=tuple(dict.fromkeys((*evidence.where, *seen[:MAX_LINT_PLACES]))))


def _with_diff(trace: Trace, prescription: Prescription) -> Prescription:
    """The prescription with the diff of its edits; without edits if they would not give valid Python."""
    parts = []
    for file in dict.fromkeys(edit.file for edit in prescription.edits):
        source = recorded_source(trace, file)
        try:
            if source is None:
                raise InputError(f"{file} cannot be read")
            changed = edits.edited_text(source, [e for e in prescription.edits if e.file == file])
            compile(changed, file, "exec", dont_inherit=True)
        except (InputError, SyntaxError, ValueError):
            return replace(prescription, edits=())
        parts.append(edits.file_diff(_relative_path(trace, file), source.text, changed))
    return replace(prescription, diff="".join(parts) or None)


def _relative_path(trace: Trace, file: str) -> str:
    path = PurePath(file)
    below = path.is_relative_to(trace.root) if trace.root else False
    return str(path.relative_to(trace.root) if below else path).lstrip("/")
