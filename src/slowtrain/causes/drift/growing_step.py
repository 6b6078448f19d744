"""Steps get slower with their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, slowed
from slowtrain.columns.array_statistics import median_value
from slowtrain.model import Category, Edit, Effect, Evidence, Place, Prescription, Signal, Spot, VerdictKind
from slowtrain.number_text import format_number
from slowtrain.script.locations import growth_lines, planned_steps, source_locations
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures import measured
from slowtrain.source.cures.host import newest
from slowtrain.source.cures.input import rebased
from slowtrain.source.spots.drift import collected, growing
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
    **slowed.CURES,
}


class GrowingStep(Cause):
    """Steps get slower the longer the run goes on.

    ## What it means
    A step that grows makes a run of twice the steps take much more than twice as long. Mostly something is collected
    from step to step and gone through as a whole in each of them: a list of losses that is averaged, a log file that is
    read again, a replay buffer, a tensor that is concatenated, a function that is traced again for each new shape.

    ## How it is recognised
    By the slope of the step time over the step's number, after warm-up, without profiler windows and the ends of
    epochs, for one number of samples, and without what a place in the epoch usually costs. The slope is
    Theil and Sen's over the medians of equal stretches, and its interval the widest of several lengths of stretch,
    each widened by how much neighbours have in common; it is reported where it is above zero in all but one of two
    thousand runs without growth, goes on in the second half, and a line tells it better than one jump. Times that
    the script prints play no part: seconds since the start grow in every run.
    The same is asked of the part of the step that grew most, whose noise may be less than that of the whole step. What
    grows along a bend leaves a line's interval wide: it counts where the last steps take more than four times as long
    as the first; of a part each of eight stretches must be longer than the one before, too.
    For this the first quarter of the steps is held against the last: which category of the step, which line of the
    script, which figure of the machine has most of the growth and grew far more than the rest of the step. Where
    all of the step got slower alike and no figure tells why, it has to go on for a minute before it is reported, or
    make a step four times as slow, which a shared machine does not. Where the input grows, and each epoch's data
    set holds the one before with further stages, that is the growth, however unsteady the steps are. Where it grows
    otherwise, the Python function that makes it is named, or the stage of tf.data of which the counters say that
    its work for a batch grew far more than that of the others. Arrays, tensors and tables of the script's own that
    were seen to get longer are named, with the line that joins more to them.

    ## What to do
    Look at the line that is named: what it goes through should not get longer. Keep a running mean instead of a list,
    append to a file instead of writing it anew, give a buffer a limit, build data sets and functions once.

    ## When it is not worth it
    When the run ends soon; the evidence says what the growth adds until then. A curriculum whose
    batches get larger on purpose grows as well.
    """

    grows = True
    title = "steps get slower as the run goes on"
    verdict_word = VerdictKind.SLOWING
    watch_rules = frozenset({"slower-steps"})
    needs = frozenset({Signal.STEPS, Signal.PHASES})
    matters = True  # what it will cost grows with the square of the steps that are still to come
    words = ("concat", "concatenate", "append", "vstack", "hstack", "extend", "map", "filter", "shuffle")
    beside = (".fit", "train_on_batch", "GradientTape")

    def examine(self, trace: Trace) -> Evidence | None:
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

    def remedy(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
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

    def prescribe(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        found = trace.once(_found)
        kind = found[1].by or found[1].kind if found is not None else ""
        yield from _rebased(trace, evidence)
        last_rows = measured.first(trace, evidence.where, newest.kept_as_long)
        if last_rows:
            rows = "keep only the newest rows, as many as there were at first"
            yield Prescription("edit", Effect.CHANGES_TRAINING, rows, edits=last_rows)
        says = CURES.get(kind, "look for what is kept from step to step: lists, tensors, graph nodes, open files")
        yield Prescription("advice", Effect.EXACT, says)

    def spot(self, source: Source) -> Iterable[Spot]:
        """Tensors and arrays that are joined to themselves, and data sets that get a stage, in each turn."""
        for one, grown, says in growing.longer(source):
            kept = "keep the newest part of a fixed length; build a data set once, before the loop"
            cure = Prescription("advice", Effect.CHANGES_TRAINING, kept)
            yield Spot(edits.node_start(one), edits.node_end(grown), says, cure)
        for whole, says in collected.gone_through(source):
            kept = "work on what a step takes: draw the rows first, or keep them in an array of a fixed size"
            cure = Prescription("advice", Effect.EXACT, kept)
            yield Spot(edits.node_start(whole), edits.node_end(whole), says, cure)

    fixes = (
        (
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(256, 4).astype("float32"), np.random.rand(256, 1).astype("float32")
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        seen = np.zeros((0, 4), "float32")
        for start in range(0, 256, 16):
            loss = model.train_on_batch(x[start : start + 16], y[start : start + 16])
            seen = np.concatenate([seen, x[start : start + 16]])
        """,
            """
        import keras
        import numpy as np
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        x, y = np.random.rand(256, 4).astype("float32"), np.random.rand(256, 1).astype("float32")
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        seen = np.zeros((0, 4), "float32")
        for start in range(0, 256, 16):
            loss = model.train_on_batch(x[start : start + 16], y[start : start + 16])
            seen = np.concatenate([seen, x[start : start + 16]])[-64:]
        """,
        ),
    )

    fires = (
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @more python=0.02
        @span stack mean start=1 end=1 line=31 times=200 every=30
        """,
        """
        step    1111111111
        compile cc........
        device  ..kkkkkkkk
        @repeat 200
        @more compile=0.2
        """,
    )
    quiet = (
        """
        step    11111 22222
        device  kkkkk kkkkk
        @repeat 400
        """,
        """
        step    11111
        python  p....
        device  .kkkk
        @repeat 400
        @more python=6 from=200
        """,
        """
        step    11111 2222222222
        python  p.... pppppp....
        device  .kkkk ......kkkk
        @repeat 400
        """,
    )


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
