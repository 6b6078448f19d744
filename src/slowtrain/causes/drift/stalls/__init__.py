"""Rare long steps."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause
from slowtrain.model import Category, Evidence, Signal, VerdictKind
from slowtrain.number_text import format_count, format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.host import checkpoint_time, stalls
from slowtrain.trace.signals.host.stalls import Stalls as StallKind
from slowtrain.whatif import Drop, Remedy, Skip

MIN_UNEXPLAINED_MS = 60_000.0  # of steps: in a shorter run, stalls without reason or period may be the machine's
MIN_CROWDING_CORES = 0.2  # taken by other processes, with no idle core left
MIN_OTHER_SHARE, MAX_OTHER_KINDS = 0.01, 3  # kinds of stalls after the largest that are named: share of the run, number
MAX_INNER_LOOP_PERIOD = 32  # steps: the script's own inner loop


class StallFinding(Struct, frozen=True):
    """At least one kind of stalls, the most important first."""

    kinds: tuple[StallKind, ...]

    @property
    def worst(self) -> StallKind:
        return self.kinds[0]


class Stalls(Cause[StallFinding]):
    """Now and then one step, or the pause after it, takes many times as long as the others."""

    title = "Rare long steps take a large part of the run"
    verdict_word = VerdictKind.SLOWING
    needs = frozenset({Signal.STEPS, Signal.PHASES, Signal.CALLS})
    scope = "run"

    def find(self, trace: Trace) -> StallFinding | None:
        kinds = _reportable_stalls(trace)
        return StallFinding(tuple(kinds)) if kinds else None

    def evidence(self, trace: Trace, finding: StallFinding) -> Evidence:
        most = finding.worst
        count, total = len(most.each), sum(s.total_ms for s in finding.kinds)
        often = f"every {most.period:.0f} steps" if most.period else "irregularly"
        each = most.total_ms / count
        says = (
            f"{count} stalls of {format_number(each)} ms, {often}, while a step takes "
            f"{format_number(most.usual_ms)} ms: {total / trace.run_ms:.0%} of the run"
            f"; {most.says or _unexplained_text(trace)}{_other_kinds_text(trace, most)}"
        )
        numbers = {
            "stalls": float(count),
            "each_ms": each,
            "usual_ms": most.usual_ms,
            "limit_ms": most.limit_ms,
            "total_ms": total,
        }
        return Evidence(says, numbers | ({"period": most.period} if most.period else {}), most.where)

    def remedies(self, trace: Trace, finding: StallFinding) -> Sequence[Remedy]:
        count = trace.steps.count
        remedies: list[Remedy] = []
        for one in finding.kinds:
            if one.inside_ms > 0:
                ms = one.inside_ms / count
                ms = min(ms, _hideable_ms(trace)) if one.kind == "input" else ms
                remedies.append(Drop({one.category: ms}, spread=(0.5, 1.05)))
            if one.total_ms > one.inside_ms:
                remedies.append(Skip(one.total_ms - one.inside_ms, spread=(0.5, 1.05)))
        return remedies


def _hideable_ms(trace: Trace) -> float:
    """The part of a step's wait for input that a longer prefetch can hide: no more than the step exceeds the making."""
    wait, pipe = trace.mean(Category.INPUT), trace.pipeline
    made = pipe.made_ms if pipe is not None else 0.0
    return max(min(wait, trace.step_ms - made), 0.0)


def _unexplained_text(trace: Trace) -> str:
    crowd = stalls.crowding_cores(trace)
    if crowd >= MIN_CROWDING_CORES:
        took = f"other processes took {format_count(crowd, 'processor', 2)} and left none idle"
        return f"no code of the script ran in them: {took}"
    return "nothing that was measured shows what ran in them"


def _other_kinds_text(trace: Trace, most: StallKind) -> str:
    """The other kinds of long steps with their share of the run, including those that are causes of their own."""
    others = [s for s in stalls.find_stalls(trace) if s is not most and s.total_ms >= MIN_OTHER_SHARE * trace.run_ms]
    said = [
        f"{len(s.each)} of {stalls.KIND_WORDS.get(s.kind, 'another kind')} ({s.total_ms / trace.run_ms:.0%})"
        for s in others
    ]
    return f"; also {', '.join(said[:MAX_OTHER_KINDS])}" if said else ""


def _reportable_stalls(trace: Trace) -> list[StallKind]:
    """Stalls that no other cause reports and that something explains, the most important first."""
    long = trace.steps.total_ms >= MIN_UNEXPLAINED_MS
    # If other processes use all processors, the script's thread is not woken up in time, wherever it is.
    crowded = stalls.crowding_cores(trace) >= MIN_CROWDING_CORES
    explained = ("checkpoint", "feed") if crowded else ("checkpoint", "feed", "python")
    found = [s for s in stalls.find_stalls(trace) if s.kind not in stalls.CLAIMED_KINDS]
    if crowded:  # the script's own stalls first, however much time the others take
        found.sort(key=lambda s: not (s.says or s.period))
    found = [s for s in found if s.period or long or s.kind in explained]
    found = [s for s in found if not _is_inner_loop(trace, s)]
    saved = checkpoint_time.find_checkpoints(trace)
    much = saved is not None and saved.is_much  # reported by host/frequent-validation
    return [s for s in found if s.kind != "checkpoint" or not much]


def _is_inner_loop(trace: Trace, one: StallKind) -> bool:
    """Whether they are ops that a loop around a few steps runs one by one, such as the gradient of a whole task."""
    return trace.steps.source == "gradient" and one.period is not None and one.period <= MAX_INNER_LOOP_PERIOD
