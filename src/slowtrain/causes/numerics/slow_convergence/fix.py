"""Another learning rate where it was measured to be better, else how to measure it."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.numerics.slow_convergence import SlowLoss
from slowtrain.model import Effect, Place, Prescription
from slowtrain.number_text import format_number
from slowtrain.script.fixes.models import learning_rates
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.trace import Trace
from slowtrain.trace.signals.rate_sweep import MeasuredBatch

MEASURE_ADVICE = "measure the loss at other learning rates: slowtrain rate --recording RUN SCRIPT"


def find_cures(trace: Trace, finding: SlowLoss) -> Iterable[Prescription]:
    rates = finding.rates
    if rates is None:
        yield Prescription("advice", Effect.CHANGES_TRAINING, MEASURE_ADVICE)
        return
    found = learning_rates.find_rate(recorded_sources(trace))
    is_same = found is not None and abs(found[1].value - rates.own) <= 1e-3 * rates.own
    edits = found[1].edits_for(found[0], rates.best / rates.own, rates.warm_up_steps) if found and is_same else ()
    says = f"use a learning rate of {rates.best:.3g} in place of {rates.own:.3g}"
    if rates.warm_up_steps:
        says = f"let the learning rate rise from 0 to {rates.best:.3g} in the first {rates.warm_up_steps} steps"
        says += f": learning_rate={found[1].warm_up_call(found[0], rates.warm_up_steps)}" if found and edits else ""
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edits)
    if rates.batch is not None:
        yield Prescription("advice", Effect.CHANGES_TRAINING, _batch_advice(rates.batch))


def _batch_advice(batch: MeasuredBatch) -> str:
    ends = f"{format_number(batch.low, 2)} to {format_number(batch.high, 2)}"
    return (
        f"then batches of {batch.best:,} with a learning rate of {batch.rate:.3g}: batches of {batch.own:,} need "
        f"{format_number(batch.times, 2)} times as many seconds to the same loss (95 %: {ends})"
    )


def find_lines(trace: Trace, _finding: SlowLoss) -> Iterable[Place]:
    """The line on which the rate is written."""
    found = learning_rates.find_rate(recorded_sources(trace))
    return (found[1].place,) if found is not None else ()
