"""Does the work of long steps less often."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from slowtrain.causes.drift.stalls import StallFinding
from slowtrain.model import Effect, Prescription
from slowtrain.script.fixes.loops.periodic_work import run_guarded_less_often
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.trace import Trace
from slowtrain.trace.signals.host.stalls import Stalls as StallKind

MIN_RARER_FACTOR = 10
MAX_LEFT_SHARE = 0.05  # of the time of the training: less is not reported
CURES = {
    "checkpoint": "save less often, weights only, or in a separate thread",
    "python": "do the work of that line less often, or in a separate thread",
    "input": "prefetch more batches, so that the slow ones are made while the others train",
    "readback": "read values back less often",
    "feed": "load the next data in a separate thread while the steps continue",
}


def find_cures(trace: Trace, finding: StallFinding) -> Iterable[Prescription]:
    worst = finding.worst
    if worst.kind in ("python", "checkpoint"):
        rarer = _rarer_factor(trace, worst)
        edits = recorded_edits.first_applicable(
            trace, worst.where, lambda s, line: run_guarded_less_often(s, line, rarer, worst.period)
        )
        if edits:
            yield Prescription("edit", Effect.EXACT, f"do that work {rarer} times less often", edits=edits)
    says = CURES.get(worst.kind, "look at the machine: disks, other processes, the power limit")
    yield Prescription("advice", Effect.EXACT, says)


def _rarer_factor(trace: Trace, one: StallKind) -> int:
    """How many times rarer the work should be: ten, or until it takes less than it has to for a report."""
    training = max(trace.steps.total_ms - one.inside_ms, 1e-9)
    return min(max(MIN_RARER_FACTOR, ceil(one.total_ms / (MAX_LEFT_SHARE * training))), len(one.each))
