"""Steps get slower with their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slowtrain.causes import Cause, slowdown_cures
from slowtrain.causes.drift.growing_step import dataset_rebasing, growing_values, newest_rows
from slowtrain.columns.arrays import median_value
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.locations import line_roles, planned_steps, source_locations
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, stage_growth, step_trend
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.drift.machine_conditions import SlowdownReason
from slowtrain.trace.signals.step_trend import StepGrowth
from slowtrain.whatif import Drop, Remedy, Skip

SPREAD = (0.6, 1.1)
RUNNING_TOTALS = "keep running totals instead of going through the whole history in each step"
CURES = {
    str(Category.PYTHON): RUNNING_TOTALS,
    "line": RUNNING_TOTALS,
    str(Category.CONVERT): "convert to tensors only the new values of each step, not all that were collected",
    str(Category.READBACK): "read back only the new values of each step, not all that were collected",
    str(Category.COMPILE): "give traced functions a fixed shape, or an input_signature with None in its place",
    str(
        Category.INPUT
    ): "build the data set once: a data set that is mapped or concatenated again grows with each iteration",
    str(Category.GC): "keep fewer Python objects alive from step to step: each collection goes through all of them",
    str(Category.CALLBACK): "let the callback add the new values, and not write or draw all that it has collected",
    "call": "pass the step's function no more than it needs: it works on all of a tensor or list that gets longer",
    "graph": "create ops before the loop, and feed what changes; graph.finalize() fails at the line that adds one",
    **slowdown_cures.CURE_BY_REASON,
}


@dataclass(frozen=True)
class GrowthFinding:
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
    beside = (".fit", "train_on_batch", "GradientTape")

    def find(self, trace: Trace) -> GrowthFinding | None:
        found = step_growth.find_step_growth(trace) or _epoch_start_growth(trace)
        if found is None:
            return None
        growth, reason = found
        return GrowthFinding(growth, reason, _growth_places(trace, reason))

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

    def cures(self, trace: Trace, finding: GrowthFinding) -> Iterable[Prescription]:
        yield from _rebased_dataset_cure(trace, finding.places)
        if edits := recorded_edits.first_applicable(trace, finding.places, newest_rows.keep_newest_rows):
            says = "keep only the newest rows, as many as there were at first"
            yield Prescription("edit", Effect.CHANGES_TRAINING, says, edits=edits)
        says = CURES.get(
            finding.kind, "look for what is kept from step to step: lists, tensors, graph nodes, open files"
        )
        yield Prescription("advice", Effect.EXACT, says)


def _rebased_dataset_cure(trace: Trace, places: Sequence[Place]) -> Iterable[Prescription]:
    """Builds each iteration's data set on the first one instead of the previous one."""
    is_exact = True

    def edit(source: Source, line: int) -> list[Edit]:
        nonlocal is_exact
        changed, is_exact = dataset_rebasing.rebase_dataset(source, line)
        return changed

    if edits := recorded_edits.first_applicable(trace, places, edit):
        effect = Effect.EXACT if is_exact else Effect.CHANGES_TRAINING  # a map is then applied once to each element
        says = "build the data set of each iteration on the first one, and not on that of the previous iteration"
        yield Prescription("edit", effect, says, edits=edits)


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


def _growth_places(trace: Trace, why: SlowdownReason) -> tuple[Place, ...]:
    """Lines that got slower and lines that make an array longer, the latter first if a call works on the array."""
    arrays = line_roles.adding_places(trace, growth_suspects.growing_arrays(trace))
    worked_on = why.kind in ("", "call", str(Category.COMPILE), str(Category.CONVERT))
    return source_locations.merge_places(arrays if worked_on else (), _growing_lines(trace, why), why.where, arrays)


def _growing_lines(trace: Trace, why: SlowdownReason) -> tuple[Place, ...]:
    """Lines that make a value longer in each step, if the growth is in the step's own call and in no other line."""
    if why.kind not in ("", "call", str(Category.COMPILE)):
        return ()
    return source_locations.project_places(
        trace, lambda source: [one.lineno for one, _, _ in growing_values.growing_values(source)]
    )[:2]


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
