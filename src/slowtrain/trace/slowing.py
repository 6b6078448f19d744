"""Steps that get longer with their number: how fast, and which part of the step grows."""

from __future__ import annotations

from dataclasses import replace

from slowtrain.model import Category
from slowtrain.trace import Ints, Trace, held, lengthening, moving, trend
from slowtrain.trace.feeding import COPY_BYTES_PER_MS
from slowtrain.trace.ordered import halfway
from slowtrain.trace.sides import Moved
from slowtrain.trace.trend import Growth

FIRST, LAST = 0.25, 0.75  # of the series; the quarters that are compared
MEAN_GROWTH = 0.5 / (1 - FIRST)  # growth of a mean step, relative to the difference of the last and first quarter
# Growth is often not linear: arrays that outgrow a cache, or the size up to which memory is reused, take ten times
# as long at once. Therefore it is compared with the very first steps, which had almost nothing to process.
AT_FIRST, LEAST_AT_FIRST = 0.02, 5  # of the steps, and steps
COPIES = 0.1  # of Python's growth; copying the arrays once must take at least this much


def in_steps(trace: Trace) -> tuple[Growth, Moved] | None:
    """Return the sure growth of the steady steps beyond the machine's own variation, with its reason; else None."""
    return trace.once(_in_steps)


def _in_steps(trace: Trace) -> tuple[Growth, Moved] | None:
    series = trend.comparable(trace)
    whole = trend.growth(series)
    if whole is None:
        return None
    why = moving.moved(trace, *quarters(trace))
    grows = whole if whole.sure else None
    if grows is None and why.kind in tuple(Category):
        # The machine's noise hides it in the whole step; the part of the step that grew has less noise.
        grows = trend.part_growth(trace, trace.categories[Category(why.kind)])
    longer = lengthening.stages(trace) if why.kind == str(Category.INPUT) else None
    if longer is not None:
        why = replace(why, says=f"{why.says}; {longer[0]}", where=longer[1], by="")
    known = longer is not None or why.kind == "graph" or _copied(trace, why, whole)
    if known and grows is None and whole.slope_ms > 0:
        grows = whole  # the reason is known, however noisy the steps are
    if grows is None:
        return None
    lasted = float(trace.steps.end_ms[series.index[-1]] - trace.steps.start_ms[series.index[0]])
    return (grows, why) if moving.tells(why, lasted, grows.grown_share) else None


def _copied(trace: Trace, why: Moved, whole: Growth) -> bool:
    """Return whether the growing Python copies arrays that are replaced by longer ones in each step.

    Depending on their size, memory for them is returned and requested again, so that such steps grow in jumps, up and
    down.
    """
    if why.kind != str(Category.PYTHON) or whole.grown_share < trend.LEAST_GROWTH:
        return False
    copying = sum(one.length for one in held.arrays(trace)) / COPY_BYTES_PER_MS
    return copying >= COPIES * why.ms[Category.PYTHON]


def quarters(trace: Trace) -> tuple[Ints, Ints]:
    """Return the indices of the first and the last quarter of the comparable steps."""
    index = trend.comparable(trace).index
    return index[: int(FIRST * len(index))], index[int(LAST * len(index)) :]


def slower_ms(trace: Trace) -> float:
    """Return by how much each step is longer than the previous one; 0 if that is not sure."""
    found = in_steps(trace)
    return max(found[0].slope_ms, 0.0) if found is not None else 0.0


def grown_ms(trace: Trace, category: Category) -> float:
    """Return the growth of a category in a mean step since the first steps, if it is the one that grows; else 0."""
    found = in_steps(trace)
    return since_first_ms(trace, found[1], category) if found is not None and found[1].kind == str(category) else 0.0


def since_first_ms(trace: Trace, why: Moved, category: Category) -> float:
    """Return the part of a category in a mean step that the first steps lack.

    At least what a line through them gives.
    """
    index = trend.comparable(trace).index
    first = trace.categories[category][index[: max(int(AT_FIRST * len(index)), LEAST_AT_FIRST)]]
    begun = float(halfway(first)) if len(first) else 0.0
    return max(trace.mean(category) - begun, MEAN_GROWTH * why.ms[category])
