"""The one-word verdicts: what bounds a steady step, and what the whole run is slow for.

The step's verdict follows its time: the group of categories that takes most of it. A cause's family never decides it.
The run's verdict is the step's, unless the run failed, ran out of memory, got slower, or spent most of what can be
saved on its start.
"""

from __future__ import annotations

from slowtrain.checkup import begun, blind, reasons
from slowtrain.diagnose import WORTH, Findings
from slowtrain.model import Category, Diagnosis, VerdictKind
from slowtrain.trace import Trace, bound, work

CLEAR_RUN_SHARE = 0.2  # of a run without steady steps: what a cause must save to speak for it
# Of a step: a smaller wait is what asking for a batch takes, in steps of a millisecond; of less overhead than half a
# step the rest is work.
UNEXPLAINED = {Category.INPUT: 0.2, Category.DISPATCH: 0.6}
FAMILIES = {"startup": VerdictKind.STARTUP, "drift": VerdictKind.SLOWING, "memory": VerdictKind.MEMORY}
FILLING = ("memory/out-of-memory", "memory/host-leak", "memory/device-leak")
LAUNCHING = "host/launch-bound"
NONFINITE = "numerics/nonfinite-loss"


def run_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """What the headline says of the run."""
    first = gaining(findings)
    exhausted = any(d.cause == FILLING[0] for d in findings.diagnoses)
    if failed(trace) and not len(trace.steps):
        return VerdictKind.MEMORY if exhausted else VerdictKind.FAILED
    if exhausted:
        return VerdictKind.MEMORY
    if not trace.enough:
        clear = first is not None and first.saving.scope == "run" and first.run_share >= CLEAR_RUN_SHARE
        if clear and first is not None:
            return _of_run(first) or VerdictKind.HOST
        return VerdictKind.STARTUP if begun.mostly_start(trace) else VerdictKind.INSUFFICIENT
    if filling(findings) is not None:
        return VerdictKind.MEMORY
    if first is not None and (kind := _of_run(first)) is not None:
        return kind
    if first is None and trace.untold and begun.mostly_start(trace):
        return VerdictKind.STARTUP
    return step_verdict(trace, findings)


def _of_run(diagnosis: Diagnosis) -> VerdictKind | None:
    """The word for what is no part of a steady step; None for all others."""
    return FAMILIES.get(diagnosis.cause.partition("/")[0])


def step_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """What bounds the steady step, by where its time goes."""
    if not trace.enough or not trace.step_ms:
        return VerdictKind.INSUFFICIENT
    kind, ms = bound.largest_group(trace)
    if gaining(findings) is None and passing(trace):
        return VerdictKind.INSUFFICIENT
    if kind is VerdictKind.COMPUTE and waits_for_copies(trace):
        return VerdictKind.MEMORY
    launching = LAUNCHING not in findings.healthy and bound.launches(trace, ms)
    return VerdictKind.LAUNCH if kind is VerdictKind.HOST and launching else kind


def waits_for_copies(trace: Trace) -> bool:
    """Whether the device is busy with waiting for copies that its own program started."""
    return work.copy_wait_share(trace.device) > 0.5


def gaining(findings: Findings) -> Diagnosis | None:
    """The first diagnosis whose cure saves something."""
    return next((d for d in findings.diagnoses if reasons.claims(d)), None)


def filling(findings: Findings) -> Diagnosis | None:
    """Memory that ran out, or a leak that stands before any saving, since the run would not live to see one."""
    first = next(iter(findings.diagnoses), None)
    return first if first is not None and first.cause in FILLING else None


def nonfinite(findings: Findings) -> Diagnosis | None:
    """A loss that is no number: of what was trained from there on nothing is left, so that no speed comes before it."""
    return next((d for d in findings.diagnoses if d.cause == NONFINITE), None)


def failed(trace: Trace) -> bool:
    code = trace.fact("launch", "exit_code")
    return isinstance(code, int) and code != 0


def largest(trace: Trace) -> Category:
    known = [c for c in trace.categories if c is not Category.UNATTRIBUTED]
    return max(known, key=trace.mean, default=Category.UNATTRIBUTED)


def unexplained(trace: Trace) -> Category | None:
    """Where so much of a step goes, without a known cause, that it is not simply healthy."""
    if not trace.step_ms:
        return None
    return next((c for c, least in UNEXPLAINED.items() if trace.share(c) >= least), None)


def passing(trace: Trace) -> bool:
    """Whether nobody looked inside a step, and its part that nothing explains is next to nothing of the run.

    A run of a hundred short steps is mostly imports: what would spare less than a twentieth of it is no finding.
    """
    odd = unexplained(trace)
    if odd is None or blind.find(trace) is None:
        return False
    return trace.mean(odd) * trace.steps.count < (1 - 1 / WORTH["run"]) * trace.run_ms
