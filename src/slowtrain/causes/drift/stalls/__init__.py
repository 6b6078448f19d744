"""Rare long steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from slowtrain.causes import Cause
from slowtrain.model import Category, Edit, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_count, format_number
from slowtrain.source.cures import measured
from slowtrain.source.cures.host.rarer import guarded
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import checkpoint_time, stalls
from slowtrain.trace.signals.host.stalls import Stalls as Found
from slowtrain.whatif import Drop, Remedy, Skip

LEAST_UNEXPLAINED_MS = 60_000.0  # of steps: what nothing explains and has no period may be the machine's mood
CROWDED = 0.2  # processors that other processes take, and leave none idle
RARER = 10
LITTLE, MOST_SAID = 0.01, 3  # of the run, to be named beside the largest kind; kinds so named
FEW_STEPS = 32  # of a period that is the script's own: a loop around a few steps
LEFT = 0.05  # of the time of the training: below that nothing is reported any more
CURES = {
    "checkpoint": "save less often, weights only, or in a thread of its own",
    "python": "do the work of that line less often, or in a thread of its own",
    "input": "prefetch more batches, so that the slow ones are made while the others train",
    "readback": "read values back less often",
    "feed": "load what comes next in a thread of its own, while the steps go on",
}


class Stalls(Cause[Evidence]):
    """Every so often one step, or the pause after it, takes many times as long as the others."""

    title = "rare long steps take a good part of the run"
    verdict_word = VerdictKind.SLOWING
    needs = frozenset({Signal.STEPS, Signal.PHASES, Signal.CALLS})
    scope = "run"

    def find(self, trace: Trace) -> Evidence | None:
        found = trace.once(_found)
        if not found:
            return None
        most = found[0]
        count, total = len(most.each), sum(s.total_ms for s in found)
        often = f"every {most.period:.0f} steps" if most.period else "irregularly"
        each = most.total_ms / count
        says = (
            f"{count} stalls of {format_number(each)} ms, {often}, where a step takes "
            f"{format_number(most.usual_ms)} ms: "
            f"{total / trace.run_ms:.0%} of the run"
        )
        says += f"; {most.says or _untold(trace)}"
        says += _beside(trace, most)
        numbers = {
            "stalls": float(count),
            "each_ms": each,
            "usual_ms": most.usual_ms,
            "limit_ms": most.limit_ms,
            "total_ms": total,
        }
        return Evidence(says, numbers | ({"period": most.period} if most.period else {}), most.where)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        count = trace.steps.count
        remedies: list[Remedy] = []
        for one in trace.once(_found):
            if one.inside_ms > 0:
                ms = one.inside_ms / count
                ms = min(ms, _hideable_ms(trace)) if one.kind == "input" else ms
                remedies.append(Drop({one.category: ms}, spread=(0.5, 1.05)))
            if one.total_ms > one.inside_ms:
                remedies.append(Skip(one.total_ms - one.inside_ms, spread=(0.5, 1.05)))
        return remedies

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = trace.once(_found)
        kind = found[0].kind if found else ""
        says = CURES.get(kind, "look at the machine: disks, other processes, the power limit")
        made = _rarer(trace, found[0]) if kind in ("python", "checkpoint") else ()
        if made:
            yield Prescription(
                "edit", Effect.EXACT, f"do that work {_times(trace, found[0])} times less often", edits=made
            )
        yield Prescription("advice", Effect.EXACT, says)


def _hideable_ms(trace: Trace) -> float:
    """What of a step's wait for input a longer prefetch can hide: none of what making takes beyond the steps."""
    wait, pipe = trace.mean(Category.INPUT), trace.pipeline
    made = pipe.made_ms if pipe is not None else 0.0
    return max(min(wait, trace.step_ms - made), 0.0)


def _untold(trace: Trace) -> str:
    crowd = stalls.crowding_cores(trace)
    if crowd >= CROWDED:
        took = f"other processes took {format_count(crowd, 'processor', 2)} and left none idle"
        return f"nothing of the script's ran in them: {took}"
    return "nothing that was measured tells what ran in them"


def _beside(trace: Trace, most: Found) -> str:
    """The other kinds of long steps with their share of the run, those that have a cause of their own too."""
    others = [s for s in stalls.find_stalls(trace) if s is not most and s.total_ms >= LITTLE * trace.run_ms]
    said = [
        f"{len(s.each)} of {stalls.KIND_WORDS.get(s.kind, 'another kind')} ({s.total_ms / trace.run_ms:.0%})"
        for s in others
    ]
    return f"; beside them {', '.join(said[:MOST_SAID])}" if said else ""


def _times(trace: Trace, one: Found) -> int:
    """How many times rarer: ten, or what leaves it :data:`LEFT` of the training; at least once in the run."""
    training = max(trace.steps.total_ms - one.inside_ms, 1e-9)
    return min(max(RARER, ceil(one.total_ms / (LEFT * training))), len(one.each))


def _rarer(trace: Trace, one: Found) -> tuple[Edit, ...]:
    """The condition around the work with a larger number of steps."""
    rarer = _times(trace, one)
    return measured.first(trace, one.where, lambda s, line: guarded(s, line, rarer, one.period))


def _found(trace: Trace) -> list[Found]:
    """Stalls that no other cause tells of and that something explains."""
    long = trace.steps.total_ms >= LEAST_UNEXPLAINED_MS
    # Where others want all processors, the script's own thread is not woken up in time, wherever it is.
    crowded = stalls.crowding_cores(trace) >= CROWDED
    told = ("checkpoint", "feed") if crowded else ("checkpoint", "feed", "python")
    found = [s for s in stalls.find_stalls(trace) if s.kind not in stalls.CLAIMED_KINDS]
    if crowded:  # the script's own first, however much the others take
        found.sort(key=lambda s: not (s.says or s.period))
    found = [s for s in found if s.period or long or s.kind in told]
    found = [s for s in found if not _of_loops(trace, s)]
    saved = checkpoint_time.find_checkpoints(trace)
    much = saved is not None and saved.is_much  # host/frequent-validation tells of it
    return [s for s in found if s.kind != "checkpoint" or not much]


def _of_loops(trace: Trace, one: Found) -> bool:
    """Whether they are what a loop around the steps runs op by op, each few of them: the gradient of a whole task."""
    return trace.steps.source == "gradient" and one.period is not None and one.period <= FEW_STEPS
