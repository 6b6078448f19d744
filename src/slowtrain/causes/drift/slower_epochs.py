"""From one epoch on, all steps are slower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, slowed
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.series import step_jumps, step_trend
from slowtrain.trace.signals.series.early_and_late import SlowdownReason
from slowtrain.trace.signals.series.step_jumps import StepJump
from slowtrain.whatif import Drop, Remedy


class SlowerEpochs(Cause):
    """From some epoch on every step takes longer, and it stays so.

    ## What it means
    Something changed in the midst of the run: a callback or schedule switched work on (unfrozen layers, a second
    loss, more augmentation), the page cache became too small, the GPU got hot, another process came.

    ## How it is recognised
    The median step of each epoch (of equal stretches where there are no epochs) is held against that of the others:
    jumps, one or several, must tell the run better than a line does, the levels before and after each must hardly
    overlap, the run must end at the higher one, and the rise must be many times what epochs differ by, also where
    neighbouring epochs are alike. At least three epochs on each side, and 15 % between them. Then the categories of the
    step, the lines of the script and the figures of the machine before and after the largest jump are compared. Where
    all of the step got slower alike and nothing tells why, it has to have gone on for a minute. The same is asked of
    the part of the step that grew most, as if the rest had always taken the same: its noise may be less.

    ## What to do
    Look at what changed with that epoch: the line or the part of the step that is named. What the script switched on
    itself can often be made cheaper or rarer.

    ## When it is not worth it
    When the change was meant: fine-tuning that unfreezes layers at the tenth epoch has to compute more.
    """

    title = "from one epoch on all steps are slower"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})

    def examine(self, trace: Trace) -> Evidence | None:
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

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = _found(trace)
        if found is None:
            return []
        jump, why = found
        more = max(trace.step_ms - jump.before_ms, 0.0)
        whole = sum(why.ms.values())
        return [Drop({c: ms / whole * more for c, ms in why.ms.items()}, spread=(0.6, 1.1))] if whole > 0 else []

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = _found(trace)
        kind = found[1].by or found[1].kind if found is not None else ""
        says = slowed.CURES.get(kind, "look at what the script switches on there: a schedule, layers, augmentation")
        yield Prescription("advice", Effect.CHANGES_TRAINING if kind not in slowed.CURES else Effect.EXACT, says)

    fires = (
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @steps block=40
        @more python=6 from=200
        """,
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @more python=6 from=240
        """,
    )
    quiet = (
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @steps block=40
        """,
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @steps block=40
        @more python=0.02
        """,
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @steps block=40
        @more python=60 every=40
        """,
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
