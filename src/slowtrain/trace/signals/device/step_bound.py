"""What bounds a step: the group of categories that takes most of its time."""

from __future__ import annotations

from collections.abc import Mapping

from slowtrain.model import Category, VerdictKind
from slowtrain.trace import Trace

HOST_CATEGORIES = (
    Category.DISPATCH, Category.HOST_OP, Category.PYTHON, Category.CONVERT, Category.CALLBACK, Category.GC,
    Category.COMPILE,
)  # fmt: skip
CATEGORIES_BY_VERDICT: Mapping[VerdictKind, tuple[Category, ...]] = {
    VerdictKind.INPUT: (Category.INPUT,),
    # Waits for data from other processes and devices. One process cannot separate the exchange from the wait
    # for a slower one (docs/decisions/2026-11-27-waiting-for-other-processes.md).
    VerdictKind.TRANSFER: (Category.FEED, Category.READBACK, Category.COLLECTIVE, Category.COLLECTIVE_WAIT),
    VerdictKind.HOST: HOST_CATEGORIES,
    VerdictKind.COMPUTE: (Category.DEVICE,),  # last, because the other of two equal parts can be cured
}
# Share of dispatch in the host's part of a step; with less, other host work also limits it.
MIN_LAUNCH_SHARE = 2 / 3
# On a processor: ratio of op time to overhead above which the overhead counts as the cost of the ops.
MIN_DEVICE_TO_DISPATCH = 0.5


def counts_dispatch_as_compute(trace: Trace) -> bool:
    """Return whether the framework's overhead counts as the cost of the ops: a processor that mostly computes."""
    return not trace.on_accelerator and trace.mean(Category.DEVICE) > MIN_DEVICE_TO_DISPATCH * trace.mean(
        Category.DISPATCH
    )


def ms_by_verdict(trace: Trace) -> dict[VerdictKind, float]:
    """Return ms of a step by verdict. On a processor the overhead of ops counts as their computation."""
    spent = {kind: sum(map(trace.mean, categories)) for kind, categories in CATEGORIES_BY_VERDICT.items()}
    dispatch = trace.mean(Category.DISPATCH)
    if counts_dispatch_as_compute(trace):
        spent[VerdictKind.COMPUTE] += dispatch
        spent[VerdictKind.HOST] -= dispatch
    return spent


def largest_verdict(trace: Trace) -> tuple[VerdictKind, float]:
    """Return the group with most ms of a step; ``insufficient-data`` if more of it is unattributed.

    The same if there is only one step and more time follows it, because every step may have that time.
    """
    spent = ms_by_verdict(trace)
    kind = max(spent, key=lambda k: spent[k])
    if trace.mean(Category.UNATTRIBUTED) > spent[kind]:
        return VerdictKind.INSUFFICIENT, trace.mean(Category.UNATTRIBUTED)
    if only_step_overrun_ms(trace) > spent[kind]:
        return VerdictKind.INSUFFICIENT, only_step_overrun_ms(trace)
    return kind, spent[kind]


def only_step_overrun_ms(trace: Trace) -> float:
    """Return ms after a profile's only step that its mark includes, although no training call reaches there."""
    return float(trace.fact("behind", "ms", default=0.0))


def mostly_launches(trace: Trace, host_ms: float) -> bool:
    """Return whether most of the host's part of a step is starting ops."""
    return not trace.eager and trace.mean(Category.DISPATCH) >= MIN_LAUNCH_SHARE * host_ms
