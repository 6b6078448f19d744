"""What bounds a step: the group of categories that takes most of its time."""

from __future__ import annotations

from collections.abc import Mapping

from slowtrain.model import Category, VerdictKind
from slowtrain.trace import Trace

HOST_CATEGORIES = (
    Category.DISPATCH, Category.HOST_OP, Category.PYTHON, Category.CONVERT, Category.CALLBACK, Category.GC,
    Category.COMPILE,
)  # fmt: skip
GROUPS: Mapping[VerdictKind, tuple[Category, ...]] = {
    VerdictKind.INPUT: (Category.INPUT,),
    # What other processes and devices have not sent yet: from one of them nobody can tell the exchange from the wait
    # for a slower one (docs/decisions/2026-11-27-waiting-for-other-processes.md).
    VerdictKind.TRANSFER: (Category.FEED, Category.READBACK, Category.COLLECTIVE, Category.COLLECTIVE_WAIT),
    VerdictKind.HOST: HOST_CATEGORIES,
    VerdictKind.COMPUTE: (Category.DEVICE,),  # last: of two equal parts the other can be cured
}
# Of the host's part of a step: with less dispatch, something else of the host holds it up as well.
LAUNCH_SHARE = 2 / 3
# On a processor, which does both: of the time in ops beside the overhead of running them, so much is their price.
OVERHEAD_OF_OPS = 0.5


def overhead_of_ops(trace: Trace) -> bool:
    """Whether the framework's overhead is the price of the ops: a processor, which does both, mostly computes."""
    return not trace.on_accelerator and trace.mean(Category.DEVICE) > OVERHEAD_OF_OPS * trace.mean(Category.DISPATCH)


def by_group(trace: Trace) -> dict[VerdictKind, float]:
    """Ms of a step by what it would be bound by. On a processor the overhead of ops counts as their computing."""
    spent = {kind: sum(map(trace.mean, categories)) for kind, categories in GROUPS.items()}
    dispatch = trace.mean(Category.DISPATCH)
    if overhead_of_ops(trace):
        spent[VerdictKind.COMPUTE] += dispatch
        spent[VerdictKind.HOST] -= dispatch
    return spent


def largest_group(trace: Trace) -> tuple[VerdictKind, float]:
    """The group with most ms of a step; ``insufficient-data`` where more of it is unattributed.

    So it is where one step is all that there is, and more than that lies behind it: each step may have it.
    """
    spent = by_group(trace)
    kind = max(spent, key=lambda k: spent[k])
    if trace.mean(Category.UNATTRIBUTED) > spent[kind]:
        return VerdictKind.INSUFFICIENT, trace.mean(Category.UNATTRIBUTED)
    if behind_ms(trace) > spent[kind]:
        return VerdictKind.INSUFFICIENT, behind_ms(trace)
    return kind, spent[kind]


def behind_ms(trace: Trace) -> float:
    """Ms behind the only step of a profile that its mark holds too, though no call of the training reaches there."""
    return float(trace.fact("behind", "ms", default=0.0))


def launches(trace: Trace, host_ms: float) -> bool:
    """Whether most of the host's part of a step is starting ops."""
    return not trace.eager and trace.mean(Category.DISPATCH) >= LAUNCH_SHARE * host_ms
