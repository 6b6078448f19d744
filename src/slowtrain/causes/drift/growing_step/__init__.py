"""Steps get slower with their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, slowdown_cures
from slowtrain.causes.drift.growing_step import growing, newest, rebased
from slowtrain.columns.array_statistics import median_value
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.locations import growth_lines, planned_steps, source_locations
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import slowdown_reason, step_growth
from slowtrain.trace.signals.input import growing_pipelines
from slowtrain.trace.signals.memory import growth_suspects
from slowtrain.trace.signals.series import step_trend
from slowtrain.trace.signals.series.early_and_late import SlowdownReason
from slowtrain.trace.signals.series.step_trend import StepGrowth
from slowtrain.whatif import Drop, Remedy, Skip

CURES = {
    str(Category.PYTHON): "keep running totals instead of going through the whole history in each step",
    "line": "keep running totals instead of going through the whole history in each step",
    str(Category.CONVERT): "turn into tensors what is new in this step, and not all that was collected so far",
    str(Category.READBACK): "read back what is new in this step, and not all that was collected so far",
    str(Category.COMPILE): "give traced functions a fixed shape, or an input_signature with None in its place",
    str(Category.INPUT): "build the data set once: one that is mapped or concatenated anew grows with each turn",
    str(Category.GC): "keep fewer Python objects alive from step to step: each collection goes through all of them",
    str(Category.CALLBACK): "let the callback add what is new, and not write or draw all that it has collected",
    "call": "give the step's function no more than it needs: a tensor or list that gets longer is worked on as a whole",
    "graph": "make ops once, before the loop: what changes is fed; graph.finalize() fails at the line that adds one",
    **slowdown_cures.CURE_BY_REASON,
}


class GrowingStep(Cause[Evidence]):
    """Steps get slower the longer the run goes on."""

    grows = True
    title = "steps get slower as the run goes on"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})
    matters = True  # what it will cost grows with the square of the steps that are still to come
    words = ("concat", "concatenate", "append", "vstack", "hstack", "extend", "map", "filter", "shuffle")
    beside = (".fit", "train_on_batch", "GradientTape")

    def find(self, trace: Trace) -> Evidence | None:
        found = trace.once(_found)
        if found is None:
            return None
        grows, why = found
        thousand = 100 * grows.per_thousand_share
        low, high = (1e5 * s / grows.first_ms for s in (grows.low_ms, grows.high_ms))
        early, late = step_growth.first_and_last_quarter(trace)
        says = (
            f"a step took {format_number(grows.first_ms)} ms at first and {format_number(grows.last_ms)} ms at the "
            "end: "
            f"{format_number(thousand, 2)} % slower every 1000 steps "
            + (f"({format_number(low, 2)} to {format_number(high, 2)})" if low > 0 else "(not along a line)")
        )
        says += f"; {why.says}" if why.says else "; nothing that was measured tells why"
        to_come, left = _left_ms(trace, grows)
        numbers = {
            "first_ms": grows.first_ms,
            "last_ms": grows.last_ms,
            "per_thousand_share": grows.per_thousand_share,
            "per_thousand_low_share": low / 100,
            "per_thousand_high_share": high / 100,
        }
        says += f"; at this rate {to_come} {_clock(left[0])}, without the growth {_clock(left[1])}"
        numbers |= {"left_ms": left[0], "left_without_ms": left[1]}
        says += slowdown_reason.growth_text(trace, early, late)
        return Evidence(says, numbers, _where(trace, why))

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        found = trace.once(_found)
        if found is None:
            return []
        grows, why = found
        more = max(trace.step_ms - grows.first_ms, 0.0)
        between = _between(trace) if growing_pipelines.find_added_stages(trace) is not None else 0.0
        outside: list[Remedy] = [Skip(between, spread=(0.6, 1.1))] if between > 0 else []
        own = next((c for c in why.ms if str(c) == why.kind), None)
        if own is not None:  # the rest of the growth is not the script's: a machine that is shared gets slower as well
            return [Drop({own: step_growth.ms_since_first_steps(trace, why, own)}, spread=(0.6, 1.1)), *outside]
        whole = sum(why.ms.values())
        dropped = {c: ms / whole * more for c, ms in why.ms.items()} if whole > 0 else {}
        return [Drop(dropped, spread=(0.6, 1.1)), *outside] if dropped else outside

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = trace.once(_found)
        kind = found[1].by or found[1].kind if found is not None else ""
        yield from _rebased(trace, evidence)
        last_rows = measured.first(trace, evidence.where, newest.kept_as_long)
        if last_rows:
            rows = "keep only the newest rows, as many as there were at first"
            yield Prescription("edit", Effect.CHANGES_TRAINING, rows, edits=last_rows)
        says = CURES.get(kind, "look for what is kept from step to step: lists, tensors, graph nodes, open files")
        yield Prescription("advice", Effect.EXACT, says)


def _rebased(trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
    """A data set that holds the last turn's, made from the first one's instead."""
    same = True

    def edit(source: Source, line: int) -> list[Edit]:
        nonlocal same
        made, same = rebased.rebased(source, line)
        return made

    made = measured.first(trace, evidence.where, edit)
    if made:
        effect = Effect.EXACT if same else Effect.CHANGES_TRAINING  # a map is done once to each element, not ever again
        says = "build each turn's data set on the one that was made at first, and not on the last turn's"
        yield Prescription("edit", effect, says, edits=made)


def _found(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    return step_growth.find_step_growth(trace) or _at_begins(trace)


def _at_begins(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    """Data sets that get longer and are waited for where epochs begin, while a buffer is filled."""
    longer, steps = growing_pipelines.find_added_stages(trace), trace.steps
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
    told = steps.steady & ~steps.windowed
    if not (told & late).any() or not (told & ~late).any():
        return None
    more = float(waits[told & late].mean() - waits[told & ~late].mean())
    return (
        (grows, SlowdownReason(str(Category.INPUT), longer[0], longer[1], {Category.INPUT: more})) if more > 0 else None
    )


def _where(trace: Trace, why: SlowdownReason) -> tuple[Place, ...]:
    """The lines that ran longer, and those that make an array longer: first, where it is what a call works on."""
    arrays = growth_lines.adding_places(trace, growth_suspects.growing_arrays(trace))
    worked_on = why.kind in ("", "call", str(Category.COMPILE), str(Category.CONVERT))
    return source_locations.merge_places(arrays if worked_on else (), _longer(trace, why), why.where, arrays)


def _longer(trace: Trace, why: SlowdownReason) -> tuple[Place, ...]:
    """What the text makes longer in each step, where the step's own call has the growth: no line beside it ran long."""
    if why.kind not in ("", "call", str(Category.COMPILE)):
        return ()
    return source_locations.project_places(trace, lambda source: [one.lineno for one, _, _ in growing.longer(source)])[
        :2
    ]


def _between(trace: Trace) -> float:
    """Ms that the calls of `fit` took outside of their steps, beyond what one of the first ones took."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    steps = trace.steps
    outside = [e.ms - float(steps.ms[(steps.start_ms >= e.start_ms) & (steps.start_ms < e.end_ms)].sum()) for e in fits]
    least = min(outside[: max(len(outside) // 3, 1)], default=0.0)
    return sum(max(ms - least, 0.0) for ms in outside)


def _left_ms(trace: Trace, grows: StepGrowth) -> tuple[str, tuple[float, float]]:
    """What the steps to come will take, with the growth and without: those that are planned, or as many again."""
    left = done = float(step_trend.step_numbers(trace.steps)[-1]) + 1
    what, plan = "as many steps again take", planned_steps.find_planned_steps(trace)
    if plan is not None:
        left = plan.steps - done
        what = "the rest takes" if plan.place is None else f"the rest of {plan} takes"
        what += " at most" if plan.at_most else ""
    return what, (left * (grows.last_ms + grows.slope_ms * left / 2), left * grows.first_ms)


def _clock(ms: float) -> str:
    """A time as people say it."""
    seconds = ms / 1e3
    value, unit = (
        (seconds / 3600, "h") if seconds >= 5400 else (seconds / 60, "min") if seconds >= 90 else (seconds, "s")
    )
    return f"{format_number(value, 2)} {unit}"
