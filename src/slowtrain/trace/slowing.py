"""Steps that get longer with their number: how fast, and what part of the step it is that grows."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.model import Category
from slowtrain.trace import Ints, Trace, held, lengthening, moving, trend
from slowtrain.trace.feeding import COPY_BYTES_PER_MS
from slowtrain.trace.ordered import halfway
from slowtrain.trace.sides import Moved
from slowtrain.trace.trend import Growth

FIRST, LAST = 0.25, 0.75  # of the series: the quarters that are held against each other
MEAN_GROWTH = 0.5 / (1 - FIRST)  # what a mean step has grown by, of what the last quarter is above the first
# What grows is often no line: arrays that outgrow a cache, or the size up to which memory is used again, take ten times
# as long at once. So it is held against the very first steps, when there was next to nothing to go through.
AT_FIRST, LEAST_AT_FIRST = 0.02, 5  # of the steps, and steps
COPIES = 0.1  # of what Python grew by: what copying the arrays once must take, at the least


def in_steps(trace: Trace) -> tuple[Growth, Moved] | None:
    """Growth of the steady steps that is sure and more than the machine's moods, with what explains it."""
    return trace.once(_in_steps)


def _in_steps(trace: Trace) -> tuple[Growth, Moved] | None:
    series = trend.comparable(trace)
    whole = trend.growth(series)
    if whole is None:
        return None
    why = moving.moved(trace, *quarters(trace))
    grows = whole if whole.sure else None
    if grows is None and why.kind in tuple(Category):
        # What the machine does to a step hides it; the part of the step that grew has less of that.
        grows = trend.part_growth(trace, trace.categories[Category(why.kind)])
    longer = lengthening.stages(trace) if why.kind == str(Category.INPUT) else None
    if longer is not None:
        why = replace(why, says=f"{why.says}; {longer[0]}", where=longer[1], by="")
    known = longer is not None or why.kind == "graph" or _copied(trace, why, whole)
    if known and grows is None and whole.slope_ms > 0:
        grows = whole  # what makes each step longer is known, however unsteady the steps are
    if grows is None:
        return None
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    return (grows, why) if moving.tells(why, lasted, grows.grown_share) else None


def _copied(trace: Trace, why: Moved, whole: Growth) -> bool:
    """Whether the Python that grew is the copying of arrays that a longer one takes the place of in each step.

    Memory is given back and taken anew for them, or not, by their size: such steps grow by leaps, and back.
    """
    if why.kind != str(Category.PYTHON) or whole.grown_share < trend.LEAST_GROWTH:
        return False
    copying = sum(one.length for one in held.arrays(trace)) / COPY_BYTES_PER_MS
    return copying >= COPIES * why.ms[Category.PYTHON]


def quarters(trace: Trace) -> tuple[Ints, Ints]:
    """Indices of the first and of the last quarter of the steps that can be compared."""
    index = trend.comparable(trace).index
    return index[: int(FIRST * len(index))], index[int(LAST * len(index)) :]


def slower_ms(trace: Trace) -> float:
    """By how much each step is longer than the one before; 0 where that is not sure."""
    found = in_steps(trace)
    return max(found[0].slope_ms, 0.0) if found is not None else 0.0


def grown_ms(trace: Trace, category: Category) -> float:
    """By how much a category is longer in a mean step than in the first ones, where it is what grows."""
    found = in_steps(trace)
    return since_first_ms(trace, found[1], category) if found is not None and found[1].kind == str(category) else 0.0


def since_first_ms(trace: Trace, why: Moved, category: Category) -> float:
    """What of a category in a mean step was not there in the first steps; at least what a line through them tells."""
    index = trend.comparable(trace).index
    first = trace.categories[category][index[: max(int(AT_FIRST * len(index)), LEAST_AT_FIRST)]]
    begun = float(halfway(first)) if len(first) else 0.0
    return max(trace.mean(category) - begun, MEAN_GROWTH * why.ms[category])
