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


class OversizedBatch(Cause):
    """The batch lies past the knee: a smaller one trains as many samples a second, in less memory.

    ## What it means
    A device that is busy takes twice as long for twice the samples. From there on a larger batch gains no time; it
    takes memory in proportion, and makes fewer updates of the weights an epoch, for which the learning rate would
    have to be raised.

    ## How it is recognised
    Only by measurement: `slowtrain batch --recording RUN train.py` times steps at each doubling of the batch. The
    batch of the run is more than twice the knee, and gains less than a tenth of its samples a second.

    ## What to do
    Halve the batch until the knee, and the learning rate with it; or use the memory for a larger model. Where
    it was the memory that was short, that is solved as well.

    ## When it is not worth it
    When the large batch was chosen for the training's sake (contrastive losses, fewer updates to be synchronised), or
    on several devices, where it is divided among them.
    """

    title = "The batch is larger than what pays"
    needs = frozenset({Signal.STEPS, Signal.BATCHES})
    matters = True  # it costs memory and updates, not time

    def examine(self, trace: Trace) -> Evidence | None:
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

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        return []  # no time is saved

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        knee = evidence.numbers["knee"]
        says = f"use a batch of {knee:.0f}, with a learning rate to match"
        yield Prescription("edit", Effect.CHANGES_TRAINING, says)

    fires = (
        """
        step    1111111111111111
        device  kkkkkkkkkkkkkkkk
        @steps size=512
        @event loop name=fit data={"data": {"shape": [60000, 784]}}
        @fact batch={"knee":64,"points":[{"batch":32,"step_ms":1.6},{"batch":64,"step_ms":2.1},
        & {"batch":128,"step_ms":4.1},{"batch":256,"step_ms":8.1},{"batch":512,"step_ms":16.1}]}
        """,
    )
    quiet = (
        """
        step    11111111
        device  kkkkkkkk
        @steps size=128
        @event loop name=fit data={"data": {"shape": [60000, 784]}}
        @fact batch={"knee":64,"points":[{"batch":32,"step_ms":1.6},{"batch":64,"step_ms":2.1},
        & {"batch":128,"step_ms":4.1},{"batch":256,"step_ms":8.1}]}
        """,
        """
        step    1111111111
        device  kkkkkkkkkk
        @steps size=512
        @event loop name=fit data={"data": {"shape": [60000, 784]}}
        @fact batch={"knee":null,"points":[{"batch":256,"step_ms":6.0},{"batch":512,"step_ms":10.0}]}
        """,
    )
