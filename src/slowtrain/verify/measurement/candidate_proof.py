"""Proves candidates against the unchanged script: cures of ``fix``, all of them together, or a change of the user."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slowtrain.capture.sandbox.treatments import PLACED_TREATMENTS, TREATMENTS
from slowtrain.diagnose import Findings
from slowtrain.errors import InputError
from slowtrain.model import Checkup, Effect, Saving, Verdict
from slowtrain.model.measurements import Attempt, Proof
from slowtrain.number_text import format_count
from slowtrain.script.navigation import project_files
from slowtrain.script.pipelines import dataset_chains
from slowtrain.script.properties.outside_effects import project_sources, unredirected_actions
from slowtrain.script.text.source_file import Source, parse_source
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.measurement.edited_files import EditedFiles, unified_diff
from slowtrain.verify.measurement.loss_parity import Parity
from slowtrain.verify.measurement.paired_trial import BETTER, CANNOT_TELL, Bench, Trial, run_trial
from slowtrain.verify.measurement.probe_process import MAX_TRAINING_S, Candidate, Probe, Rule, Script, Treatment

MIN_PROOF_S = 3.0  # of training in each process, and at least as many steps:
MIN_PROOF_STEPS = 30
MAX_LINE_DIGITS = 9  # of a line's number


def prove_candidate(
    bench: Bench, files: EditedFiles, name: str, scope: str, effect: Effect | None, cures: tuple[str, ...] = ()
) -> Proof:
    """Runs baseline and candidate alternately. Raises ``InputError`` if the unchanged script does not run."""
    begun = time.monotonic()
    limits = uncontained_effects(bench, files)
    placed = _line_treatments(cures)
    usual = Rule(seconds=MAX_TRAINING_S, later=True) if placed else Rule(seconds=MIN_PROOF_S, steps=MIN_PROOF_STEPS)
    rule = Rule() if scope == "run" else usual
    trial = run_trial(bench, Candidate("baseline"), Candidate(name, files.texts(), Treatment(cures)), rule, scope)
    if trial.failed and trial.failed.startswith("baseline: "):
        raise InputError(f"the unchanged script does not run ({trial.failed[10:]}); nothing to compare with")
    attempt = judge_trial(name, "a treatment without an edit" if cures else "your own change", effect, None, trial)
    attempt = attempt if trial.has_equal_work else replace(attempt, why=f"{attempt.why} (--scope run)")
    changed = unified_diff(files.changed_files(), Path.cwd())
    shows_loss = trial.pairs and not attempt.remark
    notes = (
        f"a run is {trial.per_process}",
        *((f"loss {trial.parity(effect).says}",) if shows_loss else ()),
        *nondeterminism_notes(trial, effect),
        *_unreached_treatments(trial, placed),
    )
    command = (bench.script.target, *bench.script.arguments)
    seconds = time.monotonic() - begun
    return Proof(command, (attempt,), attempt.verdict, changed, (), limits=limits, notes=notes, seconds=seconds)


def own_sources(script: Script) -> Iterator[Source]:
    """The sources of the script and of its own modules."""
    file = project_files.main_file(script.target) if script.module else None
    return project_sources(str(file or script.target))


def uncontained_effects(bench: Bench, files: EditedFiles | None = None) -> tuple[str, ...]:
    """Side effects of the script, or of a candidate, that no probe can prevent; reported before anything runs."""
    sources = list(own_sources(bench.script))
    sources += [
        s for file, text in (files.texts() if files else {}).items() if (s := parse_source(file, text)) is not None
    ]
    found = {
        f"{os.path.relpath(s.file)}:{line} {words}": None for s in sources for line, words in unredirected_actions(s)
    }
    for one in found:
        bench.warn(f"happens in every probe and cannot be prevented: {one}")
    return tuple(found)


def judge_trial(name: str, says: str, effect: Effect | None, predicted: Saving | None, trial: Trial) -> Attempt:
    """An attempt that is kept if the candidate is faster and keeps its promise about the loss."""
    verdict, parity = trial.verdict(effect), trial.parity(effect)
    is_kept, why = False, trial.failed or ""
    if verdict is not None and not trial.failed:
        is_kept = verdict.outcome == BETTER and parity.holds is not False
        why = _verdict_reason(verdict, parity, effect)
    remark = _loss_remark(parity) if is_kept else ""
    return Attempt(name, says, effect, predicted, verdict, is_kept, "" if is_kept else why, remark=remark)


def nondeterminism_notes(trial: Trial, effect: Effect | None) -> Iterator[str]:
    """Says that the baselines of ``trial`` differ from each other, if they are the unchanged script."""
    if trial.pairs and (own := trial.parity(effect).own):
        yield f"two runs of the unchanged script differ: {own}"


def _loss_remark(parity: Parity) -> str:
    if parity.holds is None:
        return f"loss could not be compared: {parity.says}"
    return f"loss {parity.says}" if parity.loss != "same" else ""


def _verdict_reason(verdict: Verdict, parity: Parity, effect: Effect | None) -> str:
    if parity.holds is False:
        return f"declared {effect}, but the loss {parity.says}"
    if verdict.outcome == CANNOT_TELL:
        return f"{format_count(verdict.runs // 2, 'pair')} cannot distinguish it from noise"
    return "it does not help"


def parse_treatments(says: str) -> tuple[str, ...]:
    """Parses names separated by commas. Raises ``InputError`` for an unknown one, or one whose line has no map."""
    names = tuple(dict.fromkeys(n.strip() for n in says.split(",") if n.strip()))
    unknown = [n for n in names if n not in TREATMENTS and n.partition("@")[0] not in PLACED_TREATMENTS]
    if unknown or not names:
        known = ", ".join((*TREATMENTS, *(f"{n}@FILE:LINE" for n in PLACED_TREATMENTS)))
        raise InputError(f"--treat {says}: no such treatment; choose from {known}")
    for one in names:
        name, _, at = one.partition("@")
        if name in PLACED_TREATMENTS and (why := _map_place_error(at)):
            raise InputError(f"--treat {one}: {why}; give {name}@FILE:LINE, a line of your code with one call of map")
    return names


def _map_place_error(at: str) -> str:
    """Why ``at``, ``FILE:LINE``, is not the place of exactly one ``map``; empty if it is."""
    file, _, line = at.rpartition(":")
    if not file or not line.isascii() or not line.isdigit() or len(line) > MAX_LINE_DIGITS:
        return "no line is given"
    try:
        source = parse_source(file, Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{file} cannot be read"
    count = len(dataset_chains.map_calls(source, int(line))) if source is not None else 0
    return "" if count == 1 else f"the line has {count or 'no'} calls of map"


def _line_treatments(cures: Sequence[str]) -> list[str]:
    """Treatments of a line. They are caches, whose gain does not show in the first pass over the data."""
    return [c for c in cures if c.partition("@")[0] in PLACED_TREATMENTS]


def _unreached_treatments(trial: Trial, placed: Sequence[str]) -> Iterator[str]:
    """Treatments of a line that the candidate never reached, so that the unchanged script was measured."""
    if placed and trial.pairs:
        trace = recording_trace.load_recording(trial.pairs[-1][1].folder)
        missed = [one for one in placed if not trace.fact(f"treated {one}")]
        yield from (f"{one}: no map was called on that line, so nothing was changed" for one in missed)


MIN_PAIRS = 3  # pairs for which there must be time


@dataclass(frozen=True)
class DiagnosedProbe:
    """A diagnosed run of the script in its present state."""

    probe: Probe
    trace: Trace
    findings: Findings
    checkup: Checkup

    @property
    def comes_to_the_second_pass(self) -> bool:
        """Whether a probe reaches the second pass over the data, which is the first that a cache serves."""
        steps = self.trace.steps
        if not self.probe.stopped or not len(steps):
            return True
        begun = steps.start_ms[steps.block > steps.block[0]]
        return bool(len(begun)) and float(begun[0] - steps.start_ms[0]) < 1e3 * MAX_TRAINING_S


def minimum_trial_s(seen: DiagnosedProbe, rule: Rule, scope: str, pairs: int = MIN_PAIRS) -> float:
    """The time in s for that many pairs; by default for the smallest number that can decide."""
    whole = seen.probe.wall_s
    start = seen.probe.first_step_s or whole
    return 2 * pairs * (whole if scope == "run" or not rule.seconds else min(start + rule.seconds, whole))


NO_TIME_TOGETHER = "not measured together because the time ended; each was measured on top of the ones before it"


@dataclass(frozen=True)
class KeptCure:
    """A cure that was kept by ``trial``. ``files`` contain it; ``before`` is the diagnosed script without it."""

    attempt: Attempt
    effect: Effect
    trial: Trial
    rule: Rule
    files: EditedFiles
    before: DiagnosedProbe


@dataclass(frozen=True)
class JointResult:
    """The cures that stand, and their joint verdict; None if none stands or no time was left.

    ``dropped``: attempts that were dropped, each with its reason.
    """

    kept: tuple[KeptCure, ...]
    verdict: Verdict | None
    dropped: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()


def joint_rule(probes: Sequence[tuple[Rule, str]]) -> tuple[Rule, str]:
    """Rule and scope under which all of these show their gain: the longest, and whole runs if one needs them."""
    if any(scope == "run" for _, scope in probes):
        return Rule(), "run"
    rules = [rule for rule, _ in probes]
    seconds = max(r.seconds for r in rules) if all(r.seconds for r in rules) else 0.0
    return Rule(seconds, max(r.steps for r in rules), later=any(r.later for r in rules)), "step"


def measure_together(bench: Bench, script: DiagnosedProbe, cures: Sequence[KeptCure]) -> JointResult:
    """Measures all kept cures against the ``script`` as it was. While that fails, the last cure is dropped.

    A single cure was measured against the script already, and stands.
    """
    standing, dropped = list(cures), list[Attempt]()
    while len(standing) > 1:
        rule, scope = joint_rule([(k.rule, k.trial.scope) for k in standing])
        # The last probe may have used a little of the time that was set aside.
        if bench.left_s <= minimum_trial_s(script, rule, scope, MIN_PAIRS - 1):
            return JointResult(tuple(standing), None, tuple(dropped), (NO_TIME_TOGETHER,))
        bench.say("measuring all kept cures together")
        candidate = Candidate("together", standing[-1].files.texts())
        trial = run_trial(bench, Candidate("baseline"), candidate, rule, scope)
        if len(trial.pairs) < MIN_PAIRS and (not trial.failed or bench.left_s <= 0):
            return JointResult(tuple(standing), None, tuple(dropped), (NO_TIME_TOGETHER,))
        weakest = max((k.effect for k in standing), key=list(Effect).index)
        found = judge_trial(candidate.name, "", weakest, None, trial)
        if found.kept:
            notes = (f"all together: {found.remark}",) if found.remark else ()
            return JointResult(tuple(standing), found.verdict, tuple(dropped), notes)
        last = standing.pop().attempt
        others = ", ".join(k.attempt.name for k in standing)
        why = f"better alone, but together with {others}: {found.why}"
        dropped.append(replace(last, kept=False, why=why, remark=""))
    return JointResult(tuple(standing), standing[0].attempt.verdict if standing else None, tuple(dropped))
