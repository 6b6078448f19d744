"""The one-word verdicts: what bounds a steady step, and why the whole run is slow.

The step's verdict is the group of categories that takes most of its time. A cause's family never decides it. The run's
verdict is the step's, unless the run failed, ran out of memory, got slower, or could save most at its start.
"""

from __future__ import annotations

from slowtrain.causes import class_of
from slowtrain.checkup.headline import gain_words, opaque_calls, startup_headline
from slowtrain.diagnose import MIN_SPEEDUP_BY_SCOPE, Findings
from slowtrain.model import Category, Diagnosis, VerdictKind
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work, step_bound

MIN_CLEAR_RUN_SHARE = 0.2  # of a run without steady steps: what a cause must save to decide the verdict
# Share of a step. A smaller wait for input is the cost of requesting a batch, in steps of a millisecond. If less than
# half a step is overhead, the rest is work.
UNHEALTHY_SHARES = {Category.INPUT: 0.2, Category.DISPATCH: 0.6}


def run_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """The run's verdict, as in the headline."""
    first = first_gaining(findings)
    exhausted = any(class_of(d.cause).exhausts_memory for d in findings.diagnoses)
    if has_failed(trace) and not len(trace.steps):
        return VerdictKind.MEMORY if exhausted else VerdictKind.FAILED
    if exhausted:
        return VerdictKind.MEMORY
    if not trace.enough:
        clear = first is not None and first.saving.scope == "run" and first.run_share >= MIN_CLEAR_RUN_SHARE
        if clear and first is not None:
            return _run_kind(first) or VerdictKind.HOST
        return VerdictKind.STARTUP if startup_headline.is_mostly_startup(trace) else VerdictKind.INSUFFICIENT
    if find_memory_failure(findings) is not None:
        return VerdictKind.MEMORY
    if first is not None and (kind := _run_kind(first)) is not None:
        return kind
    if first is None and trace.is_mostly_unattributed and startup_headline.is_mostly_startup(trace):
        return VerdictKind.STARTUP
    return step_verdict(trace, findings)


def _run_kind(diagnosis: Diagnosis) -> VerdictKind | None:
    """The verdict for a diagnosis outside the steady steps; None for others."""
    return class_of(diagnosis.cause).verdict_word


def step_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """What bounds the steady step, by where its time goes."""
    if not trace.enough or not trace.step_ms:
        return VerdictKind.INSUFFICIENT
    kind, ms = step_bound.largest_verdict(trace)
    if first_gaining(findings) is None and is_negligible(trace):
        return VerdictKind.INSUFFICIENT
    if kind is VerdictKind.COMPUTE and waits_for_copies(trace):
        return VerdictKind.MEMORY
    ruled_out = {class_of(cause).rules_out for cause in findings.healthy}
    launching = VerdictKind.LAUNCH not in ruled_out and step_bound.mostly_launches(trace, ms)
    return VerdictKind.LAUNCH if kind is VerdictKind.HOST and launching else kind


def waits_for_copies(trace: Trace) -> bool:
    """Whether the device is busy waiting for copies that its own program started."""
    return op_work.copy_wait_share(trace.device) > 0.5


def first_gaining(findings: Findings) -> Diagnosis | None:
    """The first diagnosis whose cure saves time."""
    return next((d for d in findings.diagnoses if gain_words.claims_gain(d)), None)


def find_memory_failure(findings: Findings) -> Diagnosis | None:
    """Exhausted memory, or a leak. They come before any saving, because the run would end before it."""
    first = next(iter(findings.diagnoses), None)
    return first if first is not None and class_of(first.cause).fills_memory else None


def find_nonfinite_loss(findings: Findings) -> Diagnosis | None:
    """A loss that is not finite. It comes before any speed-up, because all training after it is worthless."""
    return next((d for d in findings.diagnoses if class_of(d.cause).loses_training), None)


def has_failed(trace: Trace) -> bool:
    code = trace.fact("launch", "exit_code")
    return isinstance(code, int) and code != 0


def largest_category(trace: Trace) -> Category:
    known = [c for c in trace.categories if c is not Category.UNATTRIBUTED]
    return max(known, key=trace.mean, default=Category.UNATTRIBUTED)


def unexplained_category(trace: Trace) -> Category | None:
    """The category that takes too much of the step, without a known cause, for a healthy step; else None."""
    if not trace.step_ms:
        return None
    return next((c for c, least in UNHEALTHY_SHARES.items() if trace.share(c) >= least), None)


def is_negligible(trace: Trace) -> bool:
    """Whether no step was looked into, and the unexplained part is negligible for the run.

    A run of a hundred short steps is mostly imports. A saving of less than a twentieth of it is not a finding.
    """
    odd = unexplained_category(trace)
    if odd is None or opaque_calls.find_opacity(trace) is None:
        return False
    return trace.mean(odd) * trace.steps.count < (1 - 1 / MIN_SPEEDUP_BY_SCOPE["run"]) * trace.run_ms
