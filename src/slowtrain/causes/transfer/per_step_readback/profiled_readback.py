"""Readbacks in a profile: copies to the host in every step, for which the device idles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slowtrain.causes import MIN_SYMPTOM_SHARE
from slowtrain.causes.transfer.per_step_readback.loop_readback import MIN_READBACKS
from slowtrain.model import Category, Evidence, Place
from slowtrain.number_text import format_number
from slowtrain.profile import framework_names
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

MIN_READBACK_SHARE = 0.5  # of the copies to the host: the others belong to ops on the host
READBACK_GAIN_SHARE = 0.98  # of the wait


@dataclass(frozen=True)
class ProfiledReadback:
    """``count`` values are read back in a step, and the device idles for ``wait_ms``. A profile has no places."""

    count: float
    wait_ms: float
    where: tuple[Place, ...] = ()

    def evidence(self, trace: Trace) -> Evidence:
        return Evidence(
            f"{format_number(self.count)} values are read back in each step; "
            f"the device idles for {format_number(self.wait_ms)} of {format_number(trace.step_ms)} ms meanwhile",
            {"readbacks_per_step": self.count, "readback_ms": self.wait_ms, "lines_ms": self.wait_ms},
        )

    def remedies(self, trace: Trace) -> Sequence[Remedy]:
        # Without the wait, the host's work runs beside the device's work and not behind it. On an H100 two steps gained
        # 1.84 and 5.6 times, more than this predicts, because launching gets faster too.
        host_work = (Category.DISPATCH, Category.PYTHON, Category.CONVERT, Category.FEED, Category.CALLBACK)
        overlap = min(trace.mean(Category.DEVICE), sum(map(trace.mean, host_work)))
        drops = {Category.READBACK: READBACK_GAIN_SHARE * self.wait_ms, Category.DEVICE: overlap}
        return [Drop(drops, 0.0, (0.6, 1.4))]


def find_profiled_readback(trace: Trace) -> ProfiledReadback | None:
    device = trace.device
    copies = device.copies.get("d2h") if device is not None else None
    waited = trace.mean(Category.READBACK)
    if device is None or copies is None or waited < MIN_SYMPTOM_SHARE * trace.step_ms:
        return None
    if trace.fact("host_callbacks", default=0.0) >= MIN_READBACKS:
        return None  # these copies are arguments of what the compiled step computes on the host
    # Tensors on their way to an op on the host come back. And a wait for the device alone reads nothing back.
    crossing = sum(count for text, (_, count) in device.by_op.items() if framework_names.GRAPH_EDGE.search(text))
    count = copies.count - crossing / 2
    if count < max(MIN_READBACKS, MIN_READBACK_SHARE * copies.count):
        return None
    return ProfiledReadback(count, waited)
