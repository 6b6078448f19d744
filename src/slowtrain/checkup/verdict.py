"""The one-word verdicts: what bounds a steady step, and why the whole run is slow.

The step's verdict is the group of categories that takes most of its time. A cause's family never decides it. The run's
verdict is the step's, unless the run failed, ran out of memory, got slower, or could save most at its start.
"""

from __future__ import annotations

from slowtrain.checkup import begun, blind, reasons
from slowtrain.diagnose import WORTH, Findings
from slowtrain.model import Category, Diagnosis, VerdictKind
from slowtrain.trace import Trace, bound, work

CLEAR_RUN_SHARE = 0.2  # of a run without steady steps: what a cause must save to decide the verdict
# Share of a step. A smaller wait for input is the cost of requesting a batch, in steps of a millisecond. If less than
# half a step is overhead, the rest is work.
UNEXPLAINED = {Category.INPUT: 0.2, Category.DISPATCH: 0.6}
FAMILIES = {"startup": VerdictKind.STARTUP, "drift": VerdictKind.SLOWING, "memory": VerdictKind.MEMORY}
FILLING = ("memory/out-of-memory", "memory/host-leak", "memory/device-leak")
LAUNCHING = "host/launch-bound"
NONFINITE = "numerics/nonfinite-loss"


def run_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """The run's verdict, as in the headline."""
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
    """The verdict for a diagnosis outside the steady steps; None for others."""
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
    """Whether the device is busy waiting for copies that its own program started."""
    return work.copy_wait_share(trace.device) > 0.5


def gaining(findings: Findings) -> Diagnosis | None:
    """The first diagnosis whose cure saves time."""
    return next((d for d in findings.diagnoses if reasons.claims(d)), None)


def filling(findings: Findings) -> Diagnosis | None:
    """Exhausted memory, or a leak. They come before any saving, because the run would end before it."""
    first = next(iter(findings.diagnoses), None)
    return first if first is not None and first.cause in FILLING else None


def nonfinite(findings: Findings) -> Diagnosis | None:
    """A loss that is not finite. It comes before any speed-up, because all training after it is worthless."""
    return next((d for d in findings.diagnoses if d.cause == NONFINITE), None)


def failed(trace: Trace) -> bool:
    code = trace.fact("launch", "exit_code")
    return isinstance(code, int) and code != 0


def largest(trace: Trace) -> Category:
    known = [c for c in trace.categories if c is not Category.UNATTRIBUTED]
    return max(known, key=trace.mean, default=Category.UNATTRIBUTED)


def unexplained(trace: Trace) -> Category | None:
    """The category that takes too much of the step, without a known cause, for a healthy step; else None."""
    if not trace.step_ms:
        return None
    return next((c for c, least in UNEXPLAINED.items() if trace.share(c) >= least), None)


def passing(trace: Trace) -> bool:
    """Whether no step was looked into, and the unexplained part is negligible for the run.

    A run of a hundred short steps is mostly imports. A saving of less than a twentieth of it is not a finding.
    """
    odd = unexplained(trace)
    if odd is None or blind.find(trace) is None:
        return False
    return trace.mean(odd) * trace.steps.count < (1 - 1 / WORTH["run"]) * trace.run_ms
