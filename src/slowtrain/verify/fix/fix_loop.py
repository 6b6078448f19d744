"""From a script to a patch: diagnose, apply a prescription, measure, keep or drop, and diagnose again."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from slowtrain import diagnose
from slowtrain.causes import class_of
from slowtrain.checkup import build_checkup
from slowtrain.errors import InputError
from slowtrain.model import Checkup, Diagnosis, Effect, Prescription, Saving
from slowtrain.model.measurements import Attempt, BatchCurve, Device, Proof
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals.device import batch_curve
from slowtrain.verify.batch_sizes import throughput_curve
from slowtrain.verify.batch_sizes.batch_probe import step_batch
from slowtrain.verify.fix.remaining_work import PROVEN_WITHOUT_EDIT, manual_cures, unreached_parts, visibility_notes
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.candidate_proof import (
    MIN_PROOF_S,
    MIN_PROOF_STEPS,
    DiagnosedProbe,
    JointResult,
    KeptCure,
    joint_rule,
    judge_trial,
    measure_together,
    minimum_trial_s,
    nondeterminism_notes,
    own_sources,
    uncontained_effects,
)
from slowtrain.verify.measurement.edited_files import EditedFiles, unified_diff
from slowtrain.verify.measurement.paired_trial import INCOMPARABLE_STEPS, Bench, Trial, run_trial
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Treatment

MAX_SEARCH_SHARE = 0.7  # of the time that is not reserved may go into these probes
MEMORY_PROBES = 2  # probes, if there is a device that the batch has to fit
NO_TIME_REASON = "there is no time to measure it; give a longer --budget"
NO_EDIT_REASON = "no edit can set the measured size"
NO_GAIN_REASON = "; a larger batch than the script's own gains too little"


@dataclass(frozen=True)
class MeasuredSizes:
    """Step times at other batch sizes, as facts for a trace;

    ``known`` is None if nothing was decided. ``note`` says it.
    """

    known: Mapping[str, Any] | None
    note: str


def needs_batch_size(diagnosis: Diagnosis, prescription: Prescription) -> bool:
    """Whether an edit enlarges the batch, so that its size has to be decided."""
    larger = class_of(diagnosis.cause).batch_probes and prescription.effect is Effect.CHANGES_TRAINING
    return larger and bool(prescription.edits)


def measure_sizes(
    bench: Bench, seen: DiagnosedProbe, diagnosis: Diagnosis, texts: Mapping[str, str], device: Device | None
) -> MeasuredSizes:
    """Times the script, with ``texts`` in place of its files, from its own batch on until the knee is known.

    The result decides if the knee was found, or the limit of ``device``, or the last batch that the data fills, or if
    steps at least as large as those that ``diagnosis`` proposes still gained.
    """
    own, goal = step_batch(seen.trace), int(diagnosis.evidence.numbers["goal"])
    most = batch_curve.largest_data_batch(seen.trace, own)
    doublings = math.log2(max(goal / own, 1)) if own else 0.0
    probes = 1 + math.ceil(doublings) + (MEMORY_PROBES if device is not None else 0)
    each_s = minimum_trial_s(seen, throughput_curve.CURVE_RULE, "step", 1) / 2
    bench = replace(bench, deadline=bench.deadline - (1 - MAX_SEARCH_SHARE) * max(bench.left_s, 0.0))
    if not own or bench.left_s < (probes - 1) * each_s + 2 * throughput_curve.MIN_CURVE_PROBE_S:
        return undecided_sizes(diagnosis, NO_TIME_REASON if own else "the number of samples in a step is unknown")
    try:
        bench = replace(bench, folder=bench.folder / "batch")
        found = throughput_curve.measure_curve(bench, device, own=own, most=most, texts=texts)
    except InputError as error:
        return undecided_sizes(diagnosis, str(error))
    last = found.points[-1].batch
    limited = found.limit_batch is not None and found.limit_batch < max(2 * last, goal)
    whole = most is not None and most < 2 * last
    if found.knee is None and not (limited or whole) and last < goal:
        return undecided_sizes(diagnosis, f"no knee up to batch {last:,}: {found.ended}")
    if whole and not found.ended:
        few = f"its data has fewer than {batch_curve.MIN_STEPS_PER_EPOCH} steps of twice the size"
        found = replace(found, ended=few)
    return MeasuredSizes(asdict(found), f"{diagnosis.cause}: {_describe_curve(found)}")


def undecided_sizes(diagnosis: Diagnosis, why: str) -> MeasuredSizes:
    """Only the size that ``diagnosis`` itself names."""
    goal = diagnosis.evidence.numbers["goal"]
    return MeasuredSizes(
        None, f"{diagnosis.cause}: the knee was not measured, so a common size is tried ({goal:,.0f}): {why}"
    )


def _describe_curve(found: BatchCurve) -> str:
    first, last = found.points[0].batch, found.points[-1].batch
    timed = f"batches of {first:,} to {last:,} were timed" if last > first else f"a batch of {first:,} was timed"
    if found.knee is not None:
        ends = [f"{b:,}" if b is not None else "beyond" for b in (found.knee_low, found.knee_high)]
        timed += f", the knee is at {found.knee:,} ({ends[0]} to {ends[1]})"
    elif found.still_gains:
        timed += ", and the last one still gained"
    timed += f" ({found.ended})" if found.ended and found.knee is None else ""
    if found.limit_batch is None or found.device is None:
        return timed
    return f"{timed}; the memory forecast for {found.device.name} allows {found.limit_batch:,}"


DIAGNOSIS_S = 60.0  # of training in a diagnosis: two windows, and a few hundred steps of most scripts
# Of the time left may go into a diagnosis; only the first may take the larger part if time is short.
MAX_DIAGNOSIS_SHARE, MAX_FIRST_DIAGNOSIS_SHARE = 0.3, 0.4
DEFAULT_EFFECTS = frozenset({Effect.EXACT, Effect.EQUIVALENT})
NEEDS_SECOND_RUN = (
    "not measured: its gain starts with the second pass over the data, which no probe reaches; try it by hand"
)
WHOLE_RUNS_TIMED = "whole runs were timed, because without these calls only training steps are left"
NO_TIME_FOR_REST = "the time ended before the remaining causes were diagnosed; a longer --budget may find more"


@dataclass(frozen=True)
class ChosenCure:
    """A cure that can be applied, as an edit in ``files`` or else as a treatment of the running script."""

    diagnosis: Diagnosis
    prescription: Prescription
    files: EditedFiles
    treatment: Treatment = field(default_factory=Treatment)


@dataclass(frozen=True)
class TriedCure:
    """The result of trying a cure, with the trial and its rule if it was measured."""

    attempt: Attempt
    trial: Trial | None = None
    rule: Rule = field(default_factory=Rule)


def fix_script(bench: Bench, allowed: frozenset[Effect] = DEFAULT_EFFECTS, device: Device | None = None) -> Proof:
    """Cures what it can within the time. Raises ``InputError`` if the script itself does not run.

    ``device``: the device whose memory a larger batch has to fit.
    """
    begun = time.monotonic()
    files = EditedFiles()
    limits = uncontained_effects(bench)
    seen = before = _run_diagnosis(bench, files)
    attempts: list[Attempt] = []
    tried: set[tuple[str, str]] = set()
    kept_cures: list[KeptCure] = []
    as_it_is: list[Trial] = []  # trials whose baseline is the unchanged script
    over, sizes = False, None
    while (choice := _next_cure(seen, files, allowed, tried, attempts)) is not None:
        if sizes is None and needs_batch_size(choice.diagnosis, choice.prescription):
            seen, sizes = _diagnose_with_sizes(bench, before, seen, choice, files, kept_cures, device)
            before = before if kept_cures else seen
            continue  # the cause may have another cure now
        tried.add((choice.diagnosis.cause, choice.prescription.says))
        one = _try_cure(bench, before, seen, files, choice, kept_cures)
        attempts.append(one.attempt)
        if one.trial is not None and not kept_cures:
            as_it_is.append(one.trial)
        if one.attempt.kept and one.trial is not None:
            files = choice.files
            kept_cures.append(KeptCure(one.attempt, choice.prescription.effect, one.trial, one.rule, files, seen))
            within = _with_time_set_aside(bench, before, [(k.rule, k.trial.scope) for k in kept_cures])
            if not _has_time_for(within, seen):
                over = True
                break
            seen = _run_diagnosis(within, files, sizes)
    joint = measure_together(bench, before, kept_cures)
    if joint.dropped:  # what remains was diagnosed before the first of them was applied
        seen, files = kept_cures[len(joint.kept)].before, joint.kept[-1].files
    again = {(a.name, a.says): a for a in joint.dropped}
    attempts = [again.get((a.name, a.says), a) for a in attempts]
    late = over and not joint.dropped
    left = [d for d in seen.checkup.diagnoses if not late or d.cause != kept_cures[-1].attempt.name]
    return Proof(
        (bench.script.target, *bench.script.arguments),
        tuple(attempts),
        joint.verdict,
        unified_diff(files.changed_files(), Path.cwd()),
        files.changed_files(),
        before.checkup,
        _checkup_after(joint, seen, late=late),
        tuple(manual_cures(left, attempts, allowed)),
        limits,
        (
            *_proof_notes(bench, before, as_it_is),
            *([sizes.note] if sizes else []),
            *joint.notes,
            *([NO_TIME_FOR_REST] if over else []),
        ),
        time.monotonic() - begun,
    )


def _proof_notes(bench: Bench, before: DiagnosedProbe, as_it_is: list[Trial]) -> Iterator[str]:
    yield from visibility_notes(before)
    steps = [pair[0] for trial in as_it_is if trial.scope == "step" for pair in trial.pairs[:1]]
    yield from unreached_parts(list(own_sources(bench.script)), steps[0] if steps else before.probe)
    yield from [note for trial in as_it_is for note in nondeterminism_notes(trial, None)][:1]


def _checkup_after(joint: JointResult, seen: DiagnosedProbe, *, late: bool) -> Checkup | None:
    """The script with the kept cures: the last diagnosis, or its last probe if no time was left for one."""
    if not joint.kept:
        return None
    if not late:
        return seen.checkup
    folder = joint.kept[-1].trial.pairs[-1][1].folder
    trace = recording_trace.load_recording(folder)
    return build_checkup(trace, diagnose.diagnose_trace(trace), folder=folder)


def _run_diagnosis(bench: Bench, files: EditedFiles, sizes: MeasuredSizes | None = None) -> DiagnosedProbe:
    bench.say("diagnosing" if not files.current else "diagnosing the remaining causes")
    number = len(list(bench.folder.glob("diagnosis-*")))
    folder = bench.folder / f"diagnosis-{number}"
    rule = Rule(seconds=DIAGNOSIS_S, steps=MIN_PROOF_STEPS, windows=True)
    limit = max(MAX_DIAGNOSIS_SHARE * bench.left_s, min(DIAGNOSIS_S, MAX_FIRST_DIAGNOSIS_SHARE * bench.left_s))
    found = probe_process.run_probe(
        bench.script, Candidate("script", files.texts()), rule, folder, limit_s=limit, seed=bench.seed, tick=bench.tick
    )
    if found.failed:
        raise InputError(f"the unchanged script does not run ({found.failed}); nothing to compare with")
    return _examine_probe(found, recording_trace.load_recording(folder), sizes)


def _examine_probe(probe: Probe, trace: Trace, sizes: MeasuredSizes | None) -> DiagnosedProbe:
    trace = batch_curve.with_batch_fact(trace, sizes.known) if sizes is not None and sizes.known is not None else trace
    findings = diagnose.diagnose_trace(trace)
    return DiagnosedProbe(probe, trace, findings, build_checkup(trace, findings, folder=probe.folder))


def _diagnose_with_sizes(
    bench: Bench,
    script: DiagnosedProbe,
    seen: DiagnosedProbe,
    choice: ChosenCure,
    files: EditedFiles,
    kept_cures: Sequence[KeptCure],
    device: Device | None,
) -> tuple[DiagnosedProbe, MeasuredSizes]:
    """Diagnoses again with measured times at other batch sizes, if these can be measured and written."""
    probed = _probe_rule(seen, choice)
    spare = _with_time_set_aside(bench, script, [*((k.rule, k.trial.scope) for k in kept_cures), probed])
    spare = replace(spare, deadline=spare.deadline - minimum_trial_s(seen, *probed))
    sizes = measure_sizes(spare, seen, choice.diagnosis, files.texts(), device)
    if sizes.known is None:
        return seen, sizes
    again = _examine_probe(seen.probe, seen.trace, sizes)
    found = next((d for d in again.findings.diagnoses if d.cause == choice.diagnosis.cause), None)
    if found is None:
        return again, replace(sizes, note=sizes.note + NO_GAIN_REASON)
    if not any(needs_batch_size(found, p) for p in found.prescriptions):
        return seen, undecided_sizes(choice.diagnosis, NO_EDIT_REASON)
    return again, sizes


def _next_cure(
    seen: DiagnosedProbe,
    files: EditedFiles,
    allowed: frozenset[Effect],
    tried: set[tuple[str, str]],
    attempts: list[Attempt],
) -> ChosenCure | None:
    """The first cure that can be applied and was not tried, in the order of savings."""
    for diagnosis in seen.findings.diagnoses:
        if diagnosis.saving.scope == "run" and seen.probe.stopped:
            continue  # the length of a run that was ended early is unknown
        if diagnosis.saving.speedup <= 1:
            continue  # it claims no time (memory, numbers), and only time is measured
        for prescription in diagnosis.prescriptions:
            key = (diagnosis.cause, prescription.says)
            if prescription.effect not in allowed or key in tried or not prescription.can_be_tried:
                continue
            try:
                if prescription.edits:
                    return ChosenCure(diagnosis, prescription, files.with_edits(prescription.edits, seen.trace.root))
            except InputError as error:
                if prescription.treatment is None:
                    tried.add(key)
                    attempts.append(_dropped_attempt(diagnosis, prescription, str(error)))
            if prescription.treatment is not None:
                return ChosenCure(diagnosis, prescription, files, Treatment((prescription.treatment,)))
    return None


def _try_cure(
    bench: Bench,
    script: DiagnosedProbe,
    seen: DiagnosedProbe,
    files: EditedFiles,
    choice: ChosenCure,
    kept_cures: Sequence[KeptCure],
) -> TriedCure:
    diagnosis, prescription = choice.diagnosis, choice.prescription
    rule, scope = _probe_rule(seen, choice)
    # Kept cures are measured together at the end. Time for that is set aside before the second is tried.
    at_last = [(k.rule, k.trial.scope) for k in kept_cures]
    bench = _with_time_set_aside(bench, script, at_last if choice.treatment.cures else [*at_last, (rule, scope)])
    if not _has_time_for(bench, seen, rule, scope):
        return TriedCure(
            _dropped_attempt(diagnosis, prescription, "no time was left to measure it; give a longer --budget")
        )
    if prescription.later and not seen.comes_to_the_second_pass:
        return TriedCure(_dropped_attempt(diagnosis, prescription, NEEDS_SECOND_RUN))
    bench.say(f"{diagnosis.cause}: {prescription.says}")
    baseline = Candidate("baseline", files.texts())
    candidate = Candidate(diagnosis.cause, choice.files.texts(), choice.treatment)
    predicted: Saving | None = diagnosis.saving
    trial = run_trial(bench, baseline, candidate, rule, scope)
    if not trial.has_equal_work and not seen.probe.stopped:
        rule, scope = Rule(), "run"  # a saving per step predicts nothing for the run
        if not _has_time_for(bench, seen, rule, scope):
            return TriedCure(_dropped_attempt(diagnosis, prescription, f"{INCOMPARABLE_STEPS}; give a longer --budget"))
        trial, predicted = run_trial(bench, baseline, candidate, rule, scope), None
    attempt = judge_trial(diagnosis.cause, prescription.says, prescription.effect, predicted, trial)
    if predicted is None:
        attempt = replace(attempt, remark="; ".join((*([attempt.remark] if attempt.remark else []), WHOLE_RUNS_TIMED)))
    if choice.treatment.cures:
        why = PROVEN_WITHOUT_EDIT if attempt.kept else attempt.why
        return TriedCure(replace(attempt, kept=False, why=why), trial, rule)
    before = {**choice.files.original, **files.current}  # a file that no kept cure changed is in its original state
    changed = EditedFiles(before, choice.files.current).changed_files()
    return TriedCure(replace(attempt, diff=unified_diff(changed, Path.cwd())), trial, rule)


def _probe_rule(seen: DiagnosedProbe, choice: ChosenCure) -> tuple[Rule, str]:
    """The length of a probe that shows the gain of the cure."""
    if choice.diagnosis.saving.scope == "run":
        return Rule(), "run"
    if choice.prescription.later:
        return Rule(seconds=0.0 if not seen.probe.stopped else probe_process.MAX_TRAINING_S, later=True), "step"
    steps = max(MIN_PROOF_STEPS, probe_process.required_steps(seen.trace))
    seconds = min(max(MIN_PROOF_S, steps * seen.trace.step_ms / 1e3), probe_process.MAX_TRAINING_S)
    return Rule(seconds=seconds, steps=steps), "step"


def _has_time_for(bench: Bench, seen: DiagnosedProbe, rule: Rule | None = None, scope: str = "step") -> bool:
    """Whether the smallest number of pairs that can decide fits into the time left."""
    return bench.left_s > minimum_trial_s(seen, rule or Rule(seconds=MIN_PROOF_S), scope)


def _with_time_set_aside(bench: Bench, script: DiagnosedProbe, probes: Sequence[tuple[Rule, str]]) -> Bench:
    """The bench without the time for measuring these together, if there are several."""
    spare_s = minimum_trial_s(script, *joint_rule(probes)) if len(probes) > 1 else 0.0
    return replace(bench, deadline=bench.deadline - spare_s)


def _dropped_attempt(diagnosis: Diagnosis, prescription: Prescription, why: str) -> Attempt:
    return Attempt(diagnosis.cause, prescription.says, prescription.effect, diagnosis.saving, None, False, why)
