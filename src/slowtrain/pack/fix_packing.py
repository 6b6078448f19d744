"""Packing as the last cure of ``fix``: proven on a sample if its cause is still the largest, and written as a plan."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from slowtrain.causes import class_of
from slowtrain.errors import InputError
from slowtrain.model import Checkup, Diagnosis
from slowtrain.model.measurements import PlannedPacking, Proof
from slowtrain.model.packing import PackingPlan
from slowtrain.number_text import format_count
from slowtrain.pack import packing_run, script_plan
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.measurement.candidate_proof import MIN_PAIRS, MIN_PROOF_S
from slowtrain.verify.measurement.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import Bench

SAMPLING_S = 12.0  # beside the script's start: 4 s of making elements, the same elements again, writing, reading
PLAN_FILE, PATCH_FILE = "pack.json", "pack.diff"
FIX_PATCH_FILE = "fix.patch"
PLAN_COMMAND = "slowtrain pack --plan"


def with_packing(bench: Bench, proof: Proof) -> tuple[Proof, PackingPlan | None]:
    """The proof with the attempt to pack what is still the largest cause, and the plan if it was proven.

    The plan is for the script with the cures that were kept. The proof is unchanged if the text of the script does not
    show that packed elements are the same.
    """
    checkup = proof.after or proof.before
    largest = _largest_step_cause(checkup) if checkup is not None else None
    if checkup is None or largest is None or not class_of(largest.cause).cured_by_packing:
        return proof, None
    recording = Path(checkup.subject.path)
    files = EditedFiles({f.path: f.before for f in proof.files}, {f.path: f.after for f in proof.files})
    output = packing_run.default_output(bench.script.target, module=bench.script.module)
    try:
        if bench.left_s < _required_s(recording):
            raise InputError("no time was left; give a longer --budget")
        plan, attempt = script_plan.try_packing(bench, output, recording, files=files)
    except script_plan.NothingToPack as error:
        return (_with_note(proof, largest, _naming_hint(bench, error.named)) if error.named else proof), None
    except InputError as error:
        return _with_note(proof, largest, str(error)), None
    remark = f"proven on a sample of {format_count(plan.sample.elements, 'element')}"
    remark += f"; {attempt.remark}" if attempt.remark else ""
    planned = replace(attempt, name=largest.cause, kept=False, planned=attempt.kept, remark=remark)
    proof = replace(proof, attempts=(*proof.attempts, planned))
    if not attempt.kept:
        return proof, None
    if files.current:
        patch = str(bench.folder / FIX_PATCH_FILE)
        plan = replace(plan, patch=patch, notes=(*plan.notes, f"for the script with {patch} applied"))
    by_hand = tuple(one for one in proof.by_hand if PLAN_COMMAND not in one.says)
    return replace(proof, packing=_planned_packing(bench, plan), by_hand=by_hand), plan


def _with_note(proof: Proof, cause: Diagnosis, why: str) -> Proof:
    return replace(proof, notes=(*proof.notes, f"{cause.cause}: packing was not tried: {why}"))


def _naming_hint(bench: Bench, named: str) -> str:
    """What to do if the text does not show that the results of the line ``named`` are the same in each epoch."""
    script = [*(["-m"] if bench.script.module else []), bench.script.target, *bench.script.arguments]
    command = shlex.join([*PLAN_COMMAND.split(), PLAN_FILE, "--at", named, *script])
    return f"the text does not show that {named} gives the same in each epoch; if you know that it does: {command}"


def _largest_step_cause(checkup: Checkup) -> Diagnosis | None:
    """The first cause that makes steps slow; packing is measured by steps."""
    return next((d for d in checkup.diagnoses if d.saving.scope == "step" and d.saving.speedup > 1), None)


def _required_s(recording: Path) -> float:
    """The time in s for two samples, and for as many pairs as can decide."""
    steps = recording_trace.load_recording(recording).steps
    start_s = float(steps.end_ms[0]) / 1e3 if len(steps) else 0.0
    return 2 * (start_s + SAMPLING_S) + 2 * MIN_PAIRS * (start_s + MIN_PROOF_S)


def _planned_packing(bench: Bench, plan: PackingPlan) -> PlannedPacking:
    assert plan.proof is not None
    path = bench.folder / PLAN_FILE
    verify, apply = packing_run.reading_commands(plan, bench.folder / PATCH_FILE)
    return PlannedPacking(
        str(path),
        plan.output,
        plan.bytes,
        plan.seconds,
        plan.sample.elements,
        plan.saving,
        plan.proof,
        shlex.join(["slowtrain", "pack", str(path)]),
        verify,
        apply,
    )
