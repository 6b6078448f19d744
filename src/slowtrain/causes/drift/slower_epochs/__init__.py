"""From one epoch on, all steps are slower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes import Cause, slowdown_cures
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals import step_trend
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.drift.machine_conditions import SlowdownReason
from slowtrain.trace.signals.drift.step_growth import StepJump
from slowtrain.whatif import Drop, Remedy


@dataclass(frozen=True)
class JumpFinding:
    jump: StepJump
    reason: SlowdownReason


class SlowerEpochs(Cause[JumpFinding]):
    """From some epoch on every step takes longer, and it stays so."""

    title = "All steps are slower from one epoch on"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})

    def find(self, trace: Trace) -> JumpFinding | None:
        return _jump_with_reason(trace)

    def evidence(self, trace: Trace, finding: JumpFinding) -> Evidence:
        jump, reason = finding.jump, finding.reason
        says = f"a step takes {_jump_text(jump)}"
        for one in jump.also:
            says += f"; {_jump_text(one)}"
        says += f"; {reason.says}" if reason.says else "; nothing that was measured explains it"
        numbers = {"before_ms": jump.before_ms, "after_ms": jump.after_ms, "step": jump.number}
        return Evidence(says, numbers | ({"epoch": float(jump.epoch)} if jump.epoch else {}), reason.where)

    def remedies(self, trace: Trace, finding: JumpFinding) -> Sequence[Remedy]:
        more = max(trace.step_ms - finding.jump.before_ms, 0.0)
        grown_ms = finding.reason.ms
        whole = sum(grown_ms.values())
        return [Drop({c: ms / whole * more for c, ms in grown_ms.items()}, spread=(0.6, 1.1))] if whole > 0 else []

    def cures(self, trace: Trace, finding: JumpFinding) -> Iterable[Prescription]:
        kind = finding.reason.by or finding.reason.kind
        says = slowdown_cures.CURE_BY_REASON.get(
            kind, "look at what the script switches on there: a schedule, layers, augmentation"
        )
        yield Prescription(
            "advice", Effect.CHANGES_TRAINING if kind not in slowdown_cures.CURE_BY_REASON else Effect.EXACT, says
        )


def _jump_text(jump: StepJump) -> str:
    start = f"epoch {jump.epoch}" if jump.epoch else f"step {jump.number:.0f}"
    return f"{format_number(jump.after_ms)} ms from {start} on, {format_number(jump.before_ms)} ms before"


def _jump_with_reason(trace: Trace) -> JumpFinding | None:
    series = step_trend.comparable_steps(trace)
    jump = step_growth.largest_jump(series) or _jump_of_a_part(trace)
    if jump is None:
        return None
    reason = slowdown_reason.find_slowdown_reason(trace, jump.before, jump.after)
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    grown = jump.after_ms / jump.before_ms - 1
    return JumpFinding(jump, reason) if slowdown_reason.exceeds_machine_noise(reason, lasted, grown) else None


def _jump_of_a_part(trace: Trace) -> StepJump | None:
    """The jump of the part of the step that grew most, whose noise is less than that of the whole step."""
    if (
        len(step_trend.comparable_steps(trace).ms) < step_trend.MIN_TREND_STEPS
        or step_growth.find_step_growth(trace) is not None
    ):
        return None
    kind = slowdown_reason.find_slowdown_reason(trace, *step_growth.first_and_last_quarter(trace)).kind
    return step_growth.part_jump(trace, trace.categories[Category(kind)]) if kind in tuple(Category) else None
