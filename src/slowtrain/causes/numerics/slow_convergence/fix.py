"""Another learning rate where it was measured to be better, else how to measure it."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.numerics.slow_convergence import SlowLoss
from slowtrain.model import Effect, Place, Prescription
from slowtrain.script.fixes.models import learning_rates
from slowtrain.script.locations.recorded_sources import recorded_sources
from slowtrain.trace import Trace

MEASURE_ADVICE = "measure the loss at other learning rates: slowtrain rate --recording RUN SCRIPT"


def find_cures(trace: Trace, finding: SlowLoss) -> Iterable[Prescription]:
    rates = finding.rates
    if rates is None:
        yield Prescription("advice", Effect.CHANGES_TRAINING, MEASURE_ADVICE)
        return
    found = learning_rates.find_rate(recorded_sources(trace))
    is_same = found is not None and abs(found[1].value - rates.own) <= 1e-3 * rates.own
    edits = found[1].edits_for(found[0], rates.best / rates.own) if found is not None and is_same else ()
    says = f"use a learning rate of {rates.best:.3g} in place of {rates.own:.3g}"
    yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edits)


def find_lines(trace: Trace, _finding: SlowLoss) -> Iterable[Place]:
    """The line on which the rate is written."""
    found = learning_rates.find_rate(recorded_sources(trace))
    return (found[1].place,) if found is not None else ()
