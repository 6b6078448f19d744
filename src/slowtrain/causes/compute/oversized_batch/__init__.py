"""A batch far past the knee, which takes more memory and gains no throughput."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.columns.arrays import median_value
from slowtrain.model import Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve
from slowtrain.whatif import Remedy

MIN_KNEE_RATIO = 2.0  # of the batch to the knee: a knee between two measured doublings may be off by nearly that
MAX_GAIN_SHARE = 0.1  # of samples per second, which the larger batch may still gain over the knee


class BatchPastKnee(Struct, frozen=True):
    """A batch of ``size`` has ``gain_share`` more samples per second than one of ``knee``, and more peak memory."""

    size: float
    knee: int
    gain_share: float
    more_bytes: float


class OversizedBatch(Cause[BatchPastKnee]):
    """The batch is past the knee: a smaller one trains as many samples per second, in less memory."""

    title = "The batch is larger than the device needs"
    needs = frozenset({Signal.STEPS, Signal.BATCHES})
    matters = True  # it costs memory and updates, not time

    def find(self, trace: Trace) -> BatchPastKnee | None:
        curve, steps = batch_curve.read_curve(trace), trace.steps
        size = float(median_value(steps.size[steps.steady])) if steps.steady.any() and len(steps.size) else 0.0
        if curve is None or curve.knee is None or not steps.training or size <= MIN_KNEE_RATIO * curve.knee:
            return None
        gain_share = (size / curve.ms_at(size)) / (curve.knee / curve.ms_at(curve.knee)) - 1
        is_measured = size <= 2 * max(curve.ms)
        if gain_share >= MAX_GAIN_SHARE or not is_measured:
            return None
        at_knee, now = curve.memory.get(curve.knee), curve.memory.get(int(size))
        return BatchPastKnee(size, curve.knee, gain_share, max(now - at_knee, 0) if at_knee and now else 0.0)

    def evidence(self, trace: Trace, finding: BatchPastKnee) -> Evidence:
        less = f", and {finding.more_bytes / 2**20:,.0f} MiB less at its peak" if finding.more_bytes else ""
        updates = format_number(finding.size / finding.knee, 2)
        return Evidence(
            f"a batch of {finding.knee:,} has the same samples per second as {finding.size:,.0f} "
            f"({100 * finding.gain_share:+.0f} %), with {updates} times as many updates per epoch{less}",
            {"batch": finding.size, "knee": float(finding.knee), "gained_share": finding.gain_share},
        )

    def remedies(self, trace: Trace, finding: BatchPastKnee) -> Sequence[Remedy]:
        return []  # no time is saved

    def cures(self, trace: Trace, finding: BatchPastKnee) -> Iterable[Prescription]:
        says = f"use a batch of {finding.knee:.0f}, with a learning rate to match"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says)
