"""The one-word verdicts: what bounds a steady step, and what the whole run is slow for.

The step's verdict follows its time: the group of categories that takes most of it. A cause's family never decides it.
The run's verdict is the step's, unless the run failed, ran out of memory, got slower, or spent most of what can be
saved on its start.
"""

from __future__ import annotations

from collections.abc import Mapping

from slowtrain.checkup import blind
from slowtrain.diagnose import WORTH, Findings
from slowtrain.model import Category, Diagnosis, VerdictKind
from slowtrain.trace import Trace, work

CLEAR_RUN_SHARE = 0.2  # of a run without steady steps: what a cause must save to speak for it
# Of a step: a smaller wait is what asking for a batch takes, in steps of a millisecond; of less overhead than half a
# step the rest is work.
UNEXPLAINED = {Category.INPUT: 0.2, Category.DISPATCH: 0.6}
HOST_CATEGORIES = (
    Category.DISPATCH, Category.HOST_OP, Category.PYTHON, Category.CONVERT, Category.CALLBACK, Category.GC,
    Category.COMPILE,
)  # fmt: skip
GROUPS: Mapping[VerdictKind, tuple[Category, ...]] = {
    VerdictKind.COMPUTE: (Category.DEVICE, Category.COLLECTIVE),
    VerdictKind.INPUT: (Category.INPUT,),
    VerdictKind.TRANSFER: (Category.FEED, Category.READBACK),
    VerdictKind.HOST: HOST_CATEGORIES,
}
LAUNCH_SHARE = 2 / 3  # of the host's part of a step: with less dispatch, something else of the host holds it up as well
# On a processor, which does both: of the time in ops beside the overhead of running them, so much is their price.
OVERHEAD_OF_OPS = 0.5
FAMILIES = {"startup": VerdictKind.STARTUP, "drift": VerdictKind.SLOWING, "memory": VerdictKind.MEMORY}
FILLING = ("memory/out-of-memory", "memory/host-leak", "memory/device-leak")
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
        return _of_run(first) or VerdictKind.HOST if clear and first is not None else VerdictKind.INSUFFICIENT
    if filling(findings) is not None:
        return VerdictKind.MEMORY
    if first is not None and (kind := _of_run(first)) is not None:
        return kind
    return step_verdict(trace, findings)


def _of_run(diagnosis: Diagnosis) -> VerdictKind | None:
    """The word for what is no part of a steady step; None for all others."""
    return FAMILIES.get(diagnosis.cause.partition("/")[0])


def step_verdict(trace: Trace, findings: Findings) -> VerdictKind:
    """What bounds the steady step, by where its time goes."""
    if not trace.enough or not trace.step_ms:
        return VerdictKind.INSUFFICIENT
    spent = _grouped(trace)
    kind = max(spent, key=lambda k: spent[k])
    if trace.mean(Category.UNATTRIBUTED) > spent[kind] and gaining(findings) is None:
        return VerdictKind.INSUFFICIENT
    if gaining(findings) is None and passing(trace):
        return VerdictKind.INSUFFICIENT
    if kind is VerdictKind.COMPUTE and waits_for_copies(trace):
        return VerdictKind.MEMORY
    launching = not trace.eager and trace.mean(Category.DISPATCH) >= LAUNCH_SHARE * spent[kind]
    return VerdictKind.LAUNCH if kind is VerdictKind.HOST and launching else kind


def _grouped(trace: Trace) -> dict[VerdictKind, float]:
    """Ms of a step by what it would be bound by."""
    spent = {kind: sum(map(trace.mean, categories)) for kind, categories in GROUPS.items()}
    dispatch = trace.mean(Category.DISPATCH)
    if not trace.on_accelerator and trace.mean(Category.DEVICE) > OVERHEAD_OF_OPS * dispatch:
        spent[VerdictKind.COMPUTE] += dispatch
        spent[VerdictKind.HOST] -= dispatch
    return spent


def waits_for_copies(trace: Trace) -> bool:
    """Whether the device is busy with waiting for copies that its own program started."""
    return work.copy_wait_share(trace.device) > 0.5


def gaining(findings: Findings) -> Diagnosis | None:
    """The first diagnosis whose cure saves something."""
    return next((d for d in findings.diagnoses if d.saving.speedup > 1.0), None)


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
