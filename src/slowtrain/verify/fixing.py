"""From a script to a patch: diagnose, apply a prescription, measure, keep or drop, and diagnose again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from slowtrain import diagnose
from slowtrain.checkup import checkup
from slowtrain.errors import InputError
from slowtrain.model import Checkup, Diagnosis, Effect, Prescription, Saving
from slowtrain.model.proof import Attempt, Proof
from slowtrain.model.sizing import Device
from slowtrain.trace import Trace, batching, build
from slowtrain.values import dataclass
from slowtrain.verify import larger, probes
from slowtrain.verify.files import Files, diff
from slowtrain.verify.joint import Joint, Kept, at_once, together
from slowtrain.verify.larger import Sizes
from slowtrain.verify.left import PROVEN, by_hand, notes, unseen
from slowtrain.verify.pairs import OTHER_STEPS, Bench, Trial, compare
from slowtrain.verify.probes import Candidate, Probe, Rule, Treatment
from slowtrain.verify.proving import STEADY_S, STEPS, differing, foretold, judged, own
from slowtrain.verify.seen import Seen, least_s

DIAGNOSED_S = 60.0  # of training in a diagnosis: two windows, and a few hundred steps of most scripts
# Of the time left may go into a diagnosis; only the first may take the larger part if time is short.
PART, MOST_PART = 0.3, 0.4
SAFE = frozenset({Effect.EXACT, Effect.EQUIVALENT})
ONCE_FULL = "not measured: it gains from the second pass over the data on, which no probe comes to; try it by hand"
WHOLE = "whole runs were timed: without these calls its steps are those of its training"
LATE = "the time was over before what is left could be diagnosed; a longer --budget may find more"


@dataclass(frozen=True)
class Choice:
    """A cure that can be applied, as an edit in ``files`` or else as a treatment of the running script."""

    diagnosis: Diagnosis
    prescription: Prescription
    files: Files
    treatment: Treatment = field(default_factory=Treatment)


@dataclass(frozen=True)
class Tried:
    """The result of trying a cure, with the trial and its rule if it was measured."""

    attempt: Attempt
    trial: Trial | None = None
    rule: Rule = field(default_factory=Rule)


def fix(bench: Bench, allowed: frozenset[Effect] = SAFE, device: Device | None = None) -> Proof:
    """Cures what it can within the time. Raises ``InputError`` if the script itself does not run.

    ``device``: the device whose memory a larger batch has to fit.
    """
    begun = time.monotonic()
    files = Files()
    limits = foretold(bench)
    seen = before = _diagnose(bench, files)
    attempts: list[Attempt] = []
    tried: set[tuple[str, str]] = set()
    kept: list[Kept] = []
    as_it_is: list[Trial] = []  # trials whose baseline is the unchanged script
    over, sizes = False, None
    while (choice := _next(seen, files, allowed, tried, attempts)) is not None:
        if sizes is None and larger.asks(choice.diagnosis, choice.prescription):
            seen, sizes = _sized(bench, before, seen, choice, files, kept, device)
            before = before if kept else seen
            continue  # the cause may have another cure now
        tried.add((choice.diagnosis.cause, choice.prescription.says))
        one = _try(bench, before, seen, files, choice, kept)
        attempts.append(one.attempt)
        if one.trial is not None and not kept:
            as_it_is.append(one.trial)
        if one.attempt.kept and one.trial is not None:
            files = choice.files
            kept.append(Kept(one.attempt, choice.prescription.effect, one.trial, one.rule, files, seen))
            within = _setting_aside(bench, before, [(k.rule, k.trial.scope) for k in kept])
            if not _time_for(within, seen):
                over = True
                break
            seen = _diagnose(within, files, sizes)
    joint = together(bench, before, kept)
    if joint.dropped:  # what remains was diagnosed before the first of them was applied
        seen, files = kept[len(joint.kept)].before, joint.kept[-1].files
    again = {(a.name, a.says): a for a in joint.dropped}
    attempts = [again.get((a.name, a.says), a) for a in attempts]
    late = over and not joint.dropped
    left = [d for d in seen.checkup.diagnoses if not late or d.cause != kept[-1].attempt.name]
    return Proof(
        (bench.script.target, *bench.script.arguments),
        tuple(attempts),
        joint.verdict,
        diff(files.changed(), Path.cwd()),
        files.changed(),
        before.checkup,
        _after(joint, seen, late=late),
        tuple(by_hand(left, attempts, allowed)),
        limits,
        (*_notes(bench, before, as_it_is), *([sizes.note] if sizes else []), *joint.notes, *([LATE] if over else [])),
        time.monotonic() - begun,
    )


def _notes(bench: Bench, before: Seen, as_it_is: list[Trial]) -> Iterator[str]:
    yield from notes(before)
    steps = [pair[0] for trial in as_it_is if trial.scope == "step" for pair in trial.pairs[:1]]
    yield from unseen(list(own(bench.script)), steps[0] if steps else before.probe)
    yield from [said for trial in as_it_is for said in differing(trial, None)][:1]


def _after(joint: Joint, seen: Seen, *, late: bool) -> Checkup | None:
    """The script with the kept cures: the last diagnosis, or its last probe if no time was left for one."""
    if not joint.kept:
        return None
    if not late:
        return seen.checkup
    folder = joint.kept[-1].trial.pairs[-1][1].folder
    trace = build.load(folder)
    return checkup(trace, diagnose.examine(trace), folder=folder)


def _diagnose(bench: Bench, files: Files, sizes: Sizes | None = None) -> Seen:
    bench.say("diagnosing" if not files.current else "diagnosing what is left")
    number = len(list(bench.folder.glob("diagnosis-*")))
    folder = bench.folder / f"diagnosis-{number}"
    rule = Rule(seconds=DIAGNOSED_S, steps=STEPS, windows=True)
    limit = max(PART * bench.left_s, min(DIAGNOSED_S, MOST_PART * bench.left_s))
    found = probes.run(
        bench.script, Candidate("script", files.texts()), rule, folder, limit_s=limit, seed=bench.seed, tick=bench.tick
    )
    if found.failed:
        raise InputError(f"the script does not run by itself ({found.failed}); nothing to compare with")
    return _examined(found, build.load(folder), sizes)


def _examined(probe: Probe, trace: Trace, sizes: Sizes | None) -> Seen:
    trace = batching.told(trace, sizes.known) if sizes is not None and sizes.known is not None else trace
    findings = diagnose.examine(trace)
    return Seen(probe, trace, findings, checkup(trace, findings, folder=probe.folder))


def _sized(
    bench: Bench, script: Seen, seen: Seen, choice: Choice, files: Files, kept: Sequence[Kept], device: Device | None
) -> tuple[Seen, Sizes]:
    """Diagnoses again with measured times at other batch sizes, if these can be measured and written."""
    probed = _rule(seen, choice)
    spare = _setting_aside(bench, script, [*((k.rule, k.trial.scope) for k in kept), probed])
    spare = replace(spare, deadline=spare.deadline - least_s(seen, *probed))
    sizes = larger.measured(spare, seen, choice.diagnosis, files.texts(), device)
    if sizes.known is None:
        return seen, sizes
    again = _examined(seen.probe, seen.trace, sizes)
    found = next((d for d in again.findings.diagnoses if d.cause == larger.CAUSE), None)
    if found is None:
        return again, replace(sizes, note=sizes.note + larger.NO_GAIN)
    if not any(larger.asks(found, p) for p in found.prescriptions):
        return seen, larger.undecided(choice.diagnosis, larger.NO_EDIT)
    return again, sizes


def _next(
    seen: Seen, files: Files, allowed: frozenset[Effect], tried: set[tuple[str, str]], attempts: list[Attempt]
) -> Choice | None:
    """The first cure that can be applied and was not tried, in the order of savings."""
    for diagnosis in seen.findings.diagnoses:
        if diagnosis.saving.scope == "run" and seen.probe.stopped:
            continue  # the length of a run that was ended early is unknown
        if diagnosis.saving.speedup <= 1:
            continue  # it claims no time (memory, numbers), and only time is measured
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


def _try(bench: Bench, script: Seen, seen: Seen, files: Files, choice: Choice, kept: Sequence[Kept]) -> Tried:
    diagnosis, prescription = choice.diagnosis, choice.prescription
    rule, scope = _rule(seen, choice)
    # Kept cures are measured together at the end. Time for that is set aside before the second is tried.
    at_last = [(k.rule, k.trial.scope) for k in kept]
    bench = _setting_aside(bench, script, at_last if choice.treatment.cures else [*at_last, (rule, scope)])
    if not _time_for(bench, seen, rule, scope):
        return Tried(_dropped(diagnosis, prescription, "no time left to measure it; give a longer --budget"))
    if prescription.later and not seen.comes_to_the_second_pass:
        return Tried(_dropped(diagnosis, prescription, ONCE_FULL))
    bench.say(f"{diagnosis.cause}: {prescription.says}")
    baseline = Candidate("baseline", files.texts())
    candidate = Candidate(diagnosis.cause, choice.files.texts(), choice.treatment)
    predicted: Saving | None = diagnosis.saving
    trial = compare(bench, baseline, candidate, rule, scope)
    if not trial.alike and not seen.probe.stopped:
        rule, scope = Rule(), "run"  # a saving per step predicts nothing for the run
        if not _time_for(bench, seen, rule, scope):
            return Tried(_dropped(diagnosis, prescription, f"{OTHER_STEPS}; give a longer --budget"))
        trial, predicted = compare(bench, baseline, candidate, rule, scope), None
    attempt = judged(diagnosis.cause, prescription.says, prescription.effect, predicted, trial)
    if predicted is None:
        attempt = replace(attempt, remark="; ".join((*([attempt.remark] if attempt.remark else []), WHOLE)))
    if choice.treatment.cures:
        why = PROVEN if attempt.kept else attempt.why
        return Tried(replace(attempt, kept=False, why=why), trial, rule)
    before = {**choice.files.original, **files.current}  # a file that no kept cure changed is in its original state
    changed = Files(before, choice.files.current).changed()
    return Tried(replace(attempt, diff=diff(changed, Path.cwd())), trial, rule)


def _rule(seen: Seen, choice: Choice) -> tuple[Rule, str]:
    """The length of a probe that shows the gain of the cure."""
    if choice.diagnosis.saving.scope == "run":
        return Rule(), "run"
    if choice.prescription.later:
        return Rule(seconds=0.0 if not seen.probe.stopped else probes.MOST_S, later=True), "step"
    steps = max(STEPS, probes.wanted(seen.trace))
    seconds = min(max(STEADY_S, steps * seen.trace.step_ms / 1e3), probes.MOST_S)
    return Rule(seconds=seconds, steps=steps), "step"


def _time_for(bench: Bench, seen: Seen, rule: Rule | None = None, scope: str = "step") -> bool:
    """Whether the smallest number of pairs that can decide fits into the time left."""
    return bench.left_s > least_s(seen, rule or Rule(seconds=STEADY_S), scope)


def _setting_aside(bench: Bench, script: Seen, probes: Sequence[tuple[Rule, str]]) -> Bench:
    """The bench without the time for measuring these together, if there are several."""
    spare_s = least_s(script, *at_once(probes)) if len(probes) > 1 else 0.0
    return replace(bench, deadline=bench.deadline - spare_s)


def _dropped(diagnosis: Diagnosis, prescription: Prescription, why: str) -> Attempt:
    return Attempt(diagnosis.cause, prescription.says, prescription.effect, diagnosis.saving, None, False, why)
