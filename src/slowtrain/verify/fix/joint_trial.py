"""Measures all kept cures together, because two cures that help alone may interfere with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slowtrain.model import Effect, Verdict
from slowtrain.model.measurements import Attempt
from slowtrain.verify.candidates.candidate_proof import judge_trial
from slowtrain.verify.candidates.diagnosed_probe import MIN_PAIRS, DiagnosedProbe, minimum_trial_s
from slowtrain.verify.candidates.edited_files import EditedFiles
from slowtrain.verify.measurement.paired_trial import Bench, Trial, run_trial
from slowtrain.verify.measurement.probe_process import Candidate, Rule

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


def measure_together(bench: Bench, script: DiagnosedProbe, kept: Sequence[KeptCure]) -> JointResult:
    """Measures all kept cures against the ``script`` as it was. While that fails, the last cure is dropped.

    A single cure was measured against the script already, and stands.
    """
    standing, dropped = list(kept), list[Attempt]()
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
