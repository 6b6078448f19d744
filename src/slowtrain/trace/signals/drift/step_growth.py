"""Steps that get longer with their number, and which part of the step grows."""

from __future__ import annotations

from msgspec.structs import replace

from slowtrain.columns.arrays import Ints, median_value
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, stage_growth, step_trend
from slowtrain.trace.signals.drift import slowdown_reason
from slowtrain.trace.signals.drift.machine_conditions import SlowdownReason
from slowtrain.trace.signals.input_feed import COPY_BYTES_PER_MS
from slowtrain.trace.signals.step_trend import (
    StepGrowth,
)

FIRST_QUARTER_END, LAST_QUARTER_START = 0.25, 0.75  # of the series; the quarters that are compared
MEAN_GROWTH_SHARE = 0.5 / (
    1 - FIRST_QUARTER_END
)  # growth of a mean step, relative to the difference of the last and first quarter
# Growth is often not linear: arrays that outgrow a cache, or the size up to which memory is reused, take ten times
# as long at once. Therefore it is compared with the very first steps, which had almost nothing to process.
FIRST_STEPS_SHARE, MIN_FIRST_STEPS = 0.02, 5  # of the steps, and steps
MIN_COPYING_SHARE = 0.1  # of Python's growth; copying the arrays once must take at least this much


def find_step_growth(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    """Return the sure growth of the steady steps beyond the machine's own variation, with its reason; else None."""
    return trace.compute_once(_explain_step_growth)


def _explain_step_growth(trace: Trace) -> tuple[StepGrowth, SlowdownReason] | None:
    series = step_trend.comparable_steps(trace)
    whole = step_trend.series_growth(series)
    if whole is None:
        return None
    why = slowdown_reason.find_slowdown_reason(trace, *first_and_last_quarter(trace))
    grows = whole if whole.sure else None
    if grows is None and why.kind in tuple(Category):
        # The machine's noise hides it in the whole step; the part of the step that grew has less noise.
        grows = step_trend.part_growth(trace, trace.categories[Category(why.kind)])
    longer = stage_growth.find_added_stages(trace) if why.kind == str(Category.INPUT) else None
    if longer is not None:
        why = replace(why, says=f"{why.says}; {longer[0]}", where=longer[1], by="")
    known = longer is not None or why.kind == "graph" or _copies_growing_arrays(trace, why, whole)
    if known and grows is None and whole.slope_ms > 0:
        grows = whole  # the reason is known, however noisy the steps are
    if grows is None:
        return None
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    return (grows, why) if slowdown_reason.exceeds_machine_noise(why, lasted, grows.grown_share) else None


def _copies_growing_arrays(trace: Trace, why: SlowdownReason, whole: StepGrowth) -> bool:
    """Return whether the growing Python copies arrays that are replaced by longer ones in each step.

    Depending on their size, memory for them is returned and requested again, so that such steps grow in jumps, up and
    down.
    """
    if why.kind != str(Category.PYTHON) or whole.grown_share < step_trend.MIN_GROWTH_SHARE:
        return False
    copying = sum(one.length for one in growth_suspects.growing_arrays(trace)) / COPY_BYTES_PER_MS
    return copying >= MIN_COPYING_SHARE * why.ms[Category.PYTHON]


def first_and_last_quarter(trace: Trace) -> tuple[Ints, Ints]:
    """Return the indices of the first and the last quarter of the comparable steps."""
    index = step_trend.comparable_steps(trace).index
    return index[: int(FIRST_QUARTER_END * len(index))], index[int(LAST_QUARTER_START * len(index)) :]


def slower_ms_per_step(trace: Trace) -> float:
    """Return by how much each step is longer than the previous one; 0 if that is not sure."""
    found = find_step_growth(trace)
    return max(found[0].slope_ms, 0.0) if found is not None else 0.0


def category_growth_ms(trace: Trace, category: Category) -> float:
    """Return the growth of a category in a mean step since the first steps, if it is the one that grows; else 0."""
    found = find_step_growth(trace)
    return (
        ms_since_first_steps(trace, found[1], category) if found is not None and found[1].kind == str(category) else 0.0
    )


def ms_since_first_steps(trace: Trace, why: SlowdownReason, category: Category) -> float:
    """Return the part of a category in a mean step that the first steps lack.

    At least what a line through them gives.
    """
    index = step_trend.comparable_steps(trace).index
    first = trace.categories[category][index[: max(int(FIRST_STEPS_SHARE * len(index)), MIN_FIRST_STEPS)]]
    begun = float(median_value(first)) if len(first) else 0.0
    return max(trace.mean(category) - begun, MEAN_GROWTH_SHARE * why.ms[category])
