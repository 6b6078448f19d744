"""A batch far past the knee: no more throughput, only memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.columns.array_statistics import median_value
from slowtrain.model import Effect, Evidence, Prescription, Signal
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import batch_curve
from slowtrain.whatif import Remedy

PAST = 2.0  # times the knee: by less, a knee that lies between two doublings would be taken for too large a batch
MORE = 0.1  # samples a second that the larger batch may still gain, over all doublings since the knee


class OversizedBatch(Cause[Evidence]):
    """The batch lies past the knee: a smaller one trains as many samples a second, in less memory."""

    title = "The batch is larger than what pays"
    needs = frozenset({Signal.STEPS, Signal.BATCHES})
    matters = True  # it costs memory and updates, not time

    def find(self, trace: Trace) -> Evidence | None:
        known = batch_curve.read_curve(trace)
        steps = trace.steps
        size = float(median_value(steps.size[steps.steady])) if steps.steady.any() and len(steps.size) else 0.0
        if known is None or known.knee is None or not steps.training or size <= PAST * known.knee:
            return None
        gained = (size / known.ms_at(size)) / (known.knee / known.ms_at(known.knee)) - 1
        if gained >= MORE or size > 2 * max(known.ms):
            return None  # the second: nobody has measured there
        knee, now = known.memory.get(known.knee), known.memory.get(int(size))
        less = f", and {(now - knee) / 2**20:,.0f} MiB less at its peak" if knee and now and now > knee else ""
        return Evidence(
            f"a batch of {known.knee:,} has the same samples a second as {size:,.0f} ({100 * gained:+.0f} %), "
            f"with {format_number(size / known.knee, 2)} times as many updates an epoch{less}",
            {"batch": size, "knee": float(known.knee), "gained_share": gained},
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # no time is saved

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        knee = evidence.numbers["knee"]
        says = f"use a batch of {knee:.0f}, with a learning rate to match"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says)
