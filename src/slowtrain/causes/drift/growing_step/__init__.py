"""Steps get slower with their number."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from slowtrain.causes import Cause
from slowtrain.columns.arrays import median_value
from slowtrain.model import Category, Evidence, Place, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.locations import line_roles, planned_steps, source_places
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, stage_growth, step_trend
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.drift.machine_conditions import SlowdownReason
from slowtrain.trace.signals.step_trend import StepGrowth
from slowtrain.whatif import Drop, Remedy, Skip

SPREAD = (0.6, 1.1)
CALL_KINDS = ("", "call", str(Category.COMPILE))  # of growth in the step's own call


class GrowthFinding(Struct, frozen=True):
    growth: StepGrowth
    reason: SlowdownReason
    places: tuple[Place, ...]

    @property
    def kind(self) -> str:
        return self.reason.by or self.reason.kind


class GrowingStep(Cause[GrowthFinding]):
    """Steps get slower the longer the run goes on."""

    grows = True
    title = "Steps get slower as the run goes on"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})
    matters = True  # its cost grows with the square of the remaining steps
    words = ("concat", "concatenate", "append", "vstack", "hstack", "extend", "map", "filter", "shuffle")
    context_words = (".fit", "train_on_batch", "GradientTape")

    def find(self, trace: Trace) -> GrowthFinding | None:
        found = step_growth.find_step_growth(trace) or _epoch_start_growth(trace)
        if found is None:
            return None
        growth, reason = found
        finding = GrowthFinding(growth, reason, ())
        # In each step a value gets longer, if the growth is in the step's own call and in no other line.
        lines = self.lines_to_change(trace, finding)[:2] if reason.kind in CALL_KINDS else ()
        return replace(finding, places=_growth_places(trace, reason, lines))

    def evidence(self, trace: Trace, finding: GrowthFinding) -> Evidence:
        growth, reason = finding.growth, finding.reason
        thousand = 100 * growth.per_thousand_share
        low, high = (1e5 * s / growth.first_ms for s in (growth.low_ms, growth.high_ms))
        range_text = f"({format_number(low, 2)} to {format_number(high, 2)})" if low > 0 else "(not along a line)"
        to_come, (left_ms, left_without_ms) = _left_ms(trace, growth)
        early, late = step_growth.first_and_last_quarter(trace)
        says = (
            f"a step took {format_number(growth.first_ms)} ms at first and {format_number(growth.last_ms)} ms at the "
            f"end: {format_number(thousand, 2)} % slower every 1000 steps {range_text}"
            f"; {reason.says or 'nothing that was measured explains it'}"
            f"; at this rate {to_come} {_duration_text(left_ms)}, without the growth {_duration_text(left_without_ms)}"
            f"{slowdown_reason.growth_text(trace, early, late)}"
        )
        numbers = {
            "first_ms": growth.first_ms,
            "last_ms": growth.last_ms,
            "per_thousand_share": growth.per_thousand_share,
            "per_thousand_low_share": low / 100,
            "per_thousand_high_share": high / 100,
            "left_ms": left_ms,
            "left_without_ms": left_without_ms,
        }
        return Evidence(says, numbers, finding.places)

    def remedies(self, trace: Trace, finding: GrowthFinding) -> Sequence[Remedy]:
        reason = finding.reason
        between = _between_fits_ms(trace) if stage_growth.find_added_stages(trace) is not None else 0.0
        outside: list[Remedy] = [Skip(between, spread=SPREAD)] if between > 0 else []
        own = next((c for c in reason.ms if str(c) == reason.kind), None)
        if own is not None:  # the rest of the growth is not the script's: a shared machine gets slower as well
            return [Drop({own: step_growth.ms_since_first_steps(trace, reason, own)}, spread=SPREAD), *outside]
        more, whole = max(trace.step_ms - finding.growth.first_ms, 0.0), sum(reason.ms.values())
        dropped = {c: ms / whole * more for c, ms in reason.ms.items()} if whole > 0 else {}
        return [Drop(dropped, spread=SPREAD), *outside] if dropped else outside


def _epoch_start_growth(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    """Growth by data sets that get longer and delay the starts of epochs, while a buffer is filled."""
    longer, steps = stage_growth.find_added_stages(trace), trace.steps
    grows = step_trend.epoch_growth(steps) if longer is not None else None
    waits = trace.categories.get(Category.INPUT)
    if (
        longer is None
        or grows is None
        or waits is None
        or not grows.sure
        or grows.grown_share < step_trend.MIN_GROWTH_SHARE
    ):
        return None
    late = steps.block > median_value(steps.block)
    counted = steps.steady & ~steps.windowed
    if not (counted & late).any() or not (counted & ~late).any():
        return None
    more = float(waits[counted & late].mean() - waits[counted & ~late].mean())
    return (
        (grows, SlowdownReason(str(Category.INPUT), longer[0], longer[1], {Category.INPUT: more})) if more > 0 else None
    )


def _growth_places(trace: Trace, why: SlowdownReason, lines: tuple[Place, ...]) -> tuple[Place, ...]:
    """Lines that got slower and lines that make an array longer, the latter first if a call works on the array."""
    arrays = line_roles.adding_places(trace, growth_suspects.growing_arrays(trace))
    works_on_arrays = why.kind in (*CALL_KINDS, str(Category.CONVERT))
    return source_places.merge_places(arrays if works_on_arrays else (), lines, why.where, arrays)


def _between_fits_ms(trace: Trace) -> float:
    """Milliseconds of the calls of `fit` outside their steps, beyond those of the quickest of the first calls."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    steps = trace.steps
    outside = [e.ms - float(steps.ms[(steps.start_ms >= e.start_ms) & (steps.start_ms < e.end_ms)].sum()) for e in fits]
    least = min(outside[: max(len(outside) // 3, 1)], default=0.0)
    return sum(max(ms - least, 0.0) for ms in outside)


def _left_ms(trace: Trace, grows: StepGrowth) -> tuple[str, tuple[float, float]]:
    """The text and the time of the coming steps, with and without the growth: the planned ones, or as many again."""
    left = done = float(step_trend.step_numbers(trace.steps)[-1]) + 1
    what, plan = "as many steps again take", planned_steps.find_planned_steps(trace)
    if plan is not None:
        left = plan.steps - done
        what = "the rest takes" if plan.place is None else f"the rest of {plan} takes"
        what += " at most" if plan.at_most else ""
    return what, (left * (grows.last_ms + grows.slope_ms * left / 2), left * grows.first_ms)


def _duration_text(ms: float) -> str:
    """A time in seconds, minutes or hours."""
    seconds = ms / 1e3
    value, unit = (
        (seconds / 3600, "h") if seconds >= 5400 else (seconds / 60, "min") if seconds >= 90 else (seconds, "s")
    )
    return f"{format_number(value, 2)} {unit}"
