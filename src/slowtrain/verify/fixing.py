"""From a script to a patch: diagnose, apply what is prescribed, measure, keep or drop, and diagnose again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from slowtrain import diagnose
from slowtrain.checkup import checkup
from slowtrain.diagnose import Findings
from slowtrain.errors import InputError
from slowtrain.model import Checkup, Diagnosis, Effect, Prescription, Signal, Verdict
from slowtrain.model.proof import Attempt, Proof
from slowtrain.trace import Trace, build
from slowtrain.verify import probes
from slowtrain.verify.files import Files, diff
from slowtrain.verify.pairs import Bench, Trial, compare
from slowtrain.verify.probes import Candidate, Probe, Rule, Treatment
from slowtrain.verify.proving import STEADY_S, STEPS, foretold, judged

DIAGNOSED_S = 60.0  # of training are diagnosed: two windows, and a few hundred steps of most scripts
PART, MOST_PART = 0.3, 0.4  # of the time left may go into a diagnosis; more than the first in a short time only
SAFE = frozenset({Effect.EXACT, Effect.EQUIVALENT})
FEWEST = 3  # pairs for which there must be time
BY_HAND = "measured on the running script, without an edit: it can only be written by hand"
ONCE_FULL = "not measured: it gains from the second pass over the data on, which no probe comes to; try it by hand"
LATE = "the time was over before what is left could be diagnosed; a longer --budget may find more"


@dataclass(frozen=True)
class Seen:
    """A diagnosed run of the script as it is now."""

    probe: Probe
    trace: Trace
    findings: Findings
    checkup: Checkup


@dataclass(frozen=True)
class Choice:
    """A cure that can be applied: to the ``files``, or where it cannot be written there, to the running script."""

    diagnosis: Diagnosis
    prescription: Prescription
    files: Files
    treatment: Treatment = field(default_factory=Treatment)


def fix(bench: Bench, allowed: frozenset[Effect] = SAFE) -> Proof:
    """Cures what can be cured within the time. Raises ``InputError`` where the script itself does not run."""
    begun = time.monotonic()
    files = Files()
    limits = foretold(bench)
    seen = before = _diagnose(bench, files)
    attempts: list[Attempt] = []
    tried: set[tuple[str, str]] = set()
    trials: list[tuple[Attempt, Trial]] = []
    over = False
    while (choice := _next(seen, files, allowed, tried, attempts)) is not None:
        tried.add((choice.diagnosis.cause, choice.prescription.says))
        # Two that are kept are measured together in the end: time for that is set aside before the second is tried.
        within = replace(bench, deadline=bench.deadline - _least_s(seen)) if trials else bench
        attempt, trial = _try(within, seen, files, choice)
        attempts.append(attempt)
        if attempt.kept and trial is not None:
            files = choice.files
            trials.append((attempt, trial))
            if not _time_for(bench, seen):
                over = True
                break
            seen = _diagnose(bench, files)
    together = _together(bench, files, trials)
    notes = [*_notes(before), *([LATE] if over else [])]
    return Proof(
        (bench.script.target, *bench.script.arguments),
        tuple(attempts),
        together,
        diff(files.changed(), Path.cwd()),
        files.changed(),
        before.checkup,
        _after(trials, seen, late=over),
        tuple(_by_hand(seen, attempts)),
        limits,
        tuple(notes),
        time.monotonic() - begun,
    )


def _after(trials: list[tuple[Attempt, Trial]], seen: Seen, *, late: bool) -> Checkup | None:
    """The script with what was kept: as diagnosed last, or as its last probe ran where no time was left for that."""
    if not trials:
        return None
    if not late:
        return seen.checkup
    trace = build.load(trials[-1][1].pairs[-1][1].folder)
    return checkup(trace, diagnose.examine(trace), folder=trials[-1][1].pairs[-1][1].folder)


def _diagnose(bench: Bench, files: Files) -> Seen:
    bench.say("diagnosing" if not files.current else "diagnosing what is left")
    number = len(list(bench.folder.glob("diagnosis-*")))
    folder = bench.folder / f"diagnosis-{number}"
    rule = Rule(seconds=DIAGNOSED_S, steps=STEPS, windows=True)
    limit = max(PART * bench.left_s, min(DIAGNOSED_S, MOST_PART * bench.left_s))
    found = probes.run(bench.script, Candidate("script", files.texts()), rule, folder, limit_s=limit, seed=bench.seed)
    if found.failed:
        raise InputError(f"the script does not run by itself ({found.failed}); nothing to compare with")
    trace = build.load(folder)
    findings = diagnose.examine(trace)
    return Seen(found, trace, findings, checkup(trace, findings, folder=folder))


def _next(
    seen: Seen, files: Files, allowed: frozenset[Effect], tried: set[tuple[str, str]], attempts: list[Attempt]
) -> Choice | None:
    """The first cure, in the order of what it saves, that can be applied and was not tried."""
    for diagnosis in seen.findings.diagnoses:
        if diagnosis.saving.scope == "run" and seen.probe.stopped:
            continue  # of a run that was ended nobody knows the whole
        if diagnosis.saving.speedup <= 1:
            continue  # it claims no time (memory, numbers), and time is what is measured
        for prescription in diagnosis.prescriptions:
            key = (diagnosis.cause, prescription.says)
            if prescription.effect not in allowed or key in tried:
                continue
            try:
                if prescription.edits:
                    return Choice(diagnosis, prescription, files.edited(prescription.edits, seen.trace.root))
            except InputError as error:
                if prescription.treatment is None:
                    tried.add(key)
                    attempts.append(_dropped(diagnosis, prescription, str(error)))
            if prescription.treatment is not None:
                return Choice(diagnosis, prescription, files, Treatment((prescription.treatment,)))
    return None


def _try(bench: Bench, seen: Seen, files: Files, choice: Choice) -> tuple[Attempt, Trial | None]:
    diagnosis, prescription = choice.diagnosis, choice.prescription
    if not _time_for(bench, seen, diagnosis.saving.scope):
        return _dropped(diagnosis, prescription, "no time left to measure it; give a longer --budget"), None
    if prescription.later and not _comes_to_it(seen):
        return _dropped(diagnosis, prescription, ONCE_FULL), None
    bench.say(f"{diagnosis.cause}: {prescription.says}")
    rule, scope = _rule(seen, choice)
    baseline = Candidate("baseline", files.texts())
    candidate = Candidate(diagnosis.cause, choice.files.texts(), choice.treatment)
    trial = compare(bench, baseline, candidate, rule, scope)
    attempt = judged(diagnosis.cause, prescription.says, prescription.effect, diagnosis.saving, trial)
    if choice.treatment.cures:
        return replace(attempt, kept=False, why=BY_HAND if attempt.kept else attempt.why), None
    before = {**choice.files.original, **files.current}  # a file that nothing kept has touched is as it was
    changed = Files(before, choice.files.current).changed()
    return replace(attempt, diff=diff(changed, Path.cwd())), trial


def _rule(seen: Seen, choice: Choice) -> tuple[Rule, str]:
    """How long a probe has to be, so that it shows what the cure gives."""
    if choice.diagnosis.saving.scope == "run":
        return Rule(), "run"
    if choice.prescription.later:
        return Rule(seconds=0.0 if not seen.probe.stopped else probes.MOST_S, later=True), "step"
    steps = max(STEPS, probes.wanted(seen.trace))
    seconds = min(max(STEADY_S, steps * seen.trace.step_ms / 1e3), probes.MOST_S)
    return Rule(seconds=seconds, steps=steps), "step"


def _comes_to_it(seen: Seen) -> bool:
    """Whether a probe comes to the second pass over the data, which is the first that a cache serves."""
    steps = seen.trace.steps
    if not seen.probe.stopped or not len(steps):
        return True
    begun = steps.start_ms[steps.block > steps.block[0]]
    return bool(len(begun)) and float(begun[0] - steps.start_ms[0]) < 1e3 * probes.MOST_S


def _time_for(bench: Bench, seen: Seen, scope: str = "step") -> bool:
    """Whether the smallest number of pairs that can tell anything fits into what is left."""
    return bench.left_s > _least_s(seen, scope)


def _least_s(seen: Seen, scope: str = "step") -> float:
    """What so few pairs take."""
    start = seen.probe.first_step_s or seen.probe.wall_s
    return 2 * FEWEST * (seen.probe.wall_s if scope == "run" else min(start + STEADY_S, seen.probe.wall_s))


def _dropped(diagnosis: Diagnosis, prescription: Prescription, why: str) -> Attempt:
    return Attempt(diagnosis.cause, prescription.says, prescription.effect, diagnosis.saving, None, False, why)


def _together(bench: Bench, files: Files, trials: list[tuple[Attempt, Trial]]) -> Verdict | None:
    """What all that was kept gives at once: measured anew where it is more than one cure."""
    if not trials:
        return None
    if len(trials) == 1:
        return trials[0][0].verdict
    steps = [t for _, t in trials if t.scope == "step"]
    scope = "step" if steps else "run"
    rule = Rule() if scope == "run" else Rule(seconds=STEADY_S, steps=STEPS)
    bench.say("measuring all that was kept together")
    return compare(bench, Candidate("baseline"), Candidate("together", files.texts()), rule, scope).verdict(None)


def _by_hand(seen: Seen, attempts: list[Attempt]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """What is left and has no edit: the words, and the lines that they are about."""
    proven = {(a.name, a.says) for a in attempts if a.why == BY_HAND}
    known = {a.name for a in attempts if a.why != BY_HAND}
    for diagnosis in seen.checkup.diagnoses:  # whose places are as the user knows them
        words = [p for p in diagnosis.prescriptions if not p.edits or (diagnosis.cause, p.says) in proven]
        if words and diagnosis.cause not in known and diagnosis.saving.speedup > 1:
            yield diagnosis.cause, words[0].says, tuple(str(place) for place in diagnosis.evidence.where[:3])


def _notes(before: Seen) -> Iterator[str]:
    if before.probe.stopped and any(d.saving.scope == "run" for d in before.findings.diagnoses):
        yield "each probe ended before the script did: causes of the whole run were left alone"
    unseen = [u.cause for u in before.checkup.unchecked if str(Signal.KERNELS) in u.missing]
    if unseen and len(before.trace.steps) and not before.probe.stopped:
        yield (
            f"it ended after {len(before.trace.steps)} steps, before one could be looked into; train for longer to "
            f"have these checked: {', '.join(unseen)}"
        )
    for one in before.checkup.diagnoses:
        if one.saving.speedup <= 1 and any(p.edits for p in one.prescriptions):
            yield f"{one.cause} costs no time and is not tried here: the report of a run has its edit (--html, --json)"
    unpatched = before.trace.fact("not_redirected") or ()
    if unpatched:
        yield f"writes of {', '.join(map(str, unpatched))} could not be redirected: a probe may have changed files"
    if before.probe.redirected:
        yield f"{len(before.probe.redirected)} files that the script writes went to a scratch folder"
