"""From one epoch on, all steps are slower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, slowdown_cures
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.series import step_jumps, step_trend
from slowtrain.trace.signals.series.early_and_late import SlowdownReason
from slowtrain.trace.signals.series.step_jumps import StepJump
from slowtrain.whatif import Drop, Remedy


class SlowerEpochs(Cause[Evidence]):
    """From some epoch on every step takes longer, and it stays so."""

    title = "from one epoch on all steps are slower"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})

    def find(self, trace: Trace) -> Evidence | None:
        found = _found(trace)
        if found is None:
            return None
        jump, why = found
        says = (
            f"a step takes {format_number(jump.after_ms)} ms from {_since(jump)} on, "
            f"{format_number(jump.before_ms)} ms before"
        )
        for one in jump.also:
            says += (
                f"; {format_number(one.after_ms)} ms from {_since(one)} on, {format_number(one.before_ms)} ms before"
            )
        says += f"; {why.says}" if why.says else "; nothing that was measured tells why"
        numbers = {"before_ms": jump.before_ms, "after_ms": jump.after_ms, "step": jump.number}
        return Evidence(says, numbers | ({"epoch": float(jump.epoch)} if jump.epoch else {}), why.where)

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _found(trace)
        if found is None:
            return []
        jump, why = found
        more = max(trace.step_ms - jump.before_ms, 0.0)
        whole = sum(why.ms.values())
        return [Drop({c: ms / whole * more for c, ms in why.ms.items()}, spread=(0.6, 1.1))] if whole > 0 else []

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = _found(trace)
        kind = found[1].by or found[1].kind if found is not None else ""
        says = slowdown_cures.CURE_BY_REASON.get(
            kind, "look at what the script switches on there: a schedule, layers, augmentation"
        )
        yield Prescription(
            "advice", Effect.CHANGES_TRAINING if kind not in slowdown_cures.CURE_BY_REASON else Effect.EXACT, says
        )


def _since(jump: StepJump) -> str:
    return f"epoch {jump.epoch}" if jump.epoch else f"step {jump.number:.0f}"


def _found(trace: Trace) -> tuple[StepJump, SlowdownReason] | None:
    series = step_trend.comparable_steps(trace)
    jump = step_jumps.largest_jump(series) or _of_a_part(trace)
    if jump is None:
        return None
    why = slowdown_reason.find_slowdown_reason(trace, jump.before, jump.after)
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    grown = jump.after_ms / jump.before_ms - 1
    return (jump, why) if slowdown_reason.exceeds_machine_noise(why, lasted, grown) else None


def _of_a_part(trace: Trace) -> StepJump | None:
    """What the machine does to a step hides its jump; the part of the step that grew has less of that."""
    if (
        len(step_trend.comparable_steps(trace).ms) < step_trend.MIN_TREND_STEPS
        or step_growth.find_step_growth(trace) is not None
    ):
        return None
    kind = slowdown_reason.find_slowdown_reason(trace, *step_growth.first_and_last_quarter(trace)).kind
    return step_jumps.part_jump(trace, trace.categories[Category(kind)]) if kind in tuple(Category) else None
