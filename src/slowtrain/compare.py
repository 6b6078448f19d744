"""What got slower or faster between two runs, by category, with the noise of each.

Steps of one run are not independent, so means are taken over stretches of neighbouring steps, and the spread of those
means is the noise (batch means). A change counts if it exceeds the noise of both runs together.
"""

from __future__ import annotations

from pathlib import PurePath

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.model import Category
from slowtrain.model.measurements import Change, Comparison
from slowtrain.trace import Trace

NOISE_STRETCHES = 20
MAX_SAMPLE_DIFFERENCE_SHARE = (
    0.01  # by which a step's samples may differ, because the last batch of an epoch is smaller
)
SAMPLES_PER_UNIT = 1000.0
MIN_STANDARD_ERRORS = 2.0  # standard errors: 95 % of pure noise lies within


def compare_runs(before: Trace, after: Trace, names: tuple[str, str]) -> Comparison:
    """Mean steady steps of two runs, category by category, the largest change first, and the phases of both runs.

    If a step has more samples in one run than in the other, both are given per thousand samples.
    """
    sizes = _samples_per_step(before), _samples_per_step(after)
    samples = (
        (sizes[0], sizes[1])
        if sizes[0] and sizes[1] and abs(sizes[1] / sizes[0] - 1) > MAX_SAMPLE_DIFFERENCE_SHARE
        else None
    )
    scale = (SAMPLES_PER_UNIT / samples[0], SAMPLES_PER_UNIT / samples[1]) if samples else (1.0, 1.0)

    def change(name: str, first: Floats, second: Floats) -> Change:
        return _figure_change(name, first * scale[0], second * scale[1])

    whole = change("step", before.steps.steady_ms, after.steps.steady_ms)
    rows = [
        change(str(c), before.categories[c][before.steps.steady], after.categories[c][after.steps.steady])
        for c in Category
        if c in before.categories and c in after.categories
    ]
    changes = [r for r in rows if r.before_ms > 0 or r.after_ms > 0]
    changes.sort(key=lambda r: -abs(r.difference_ms))
    return Comparison(
        names, whole, tuple(changes), samples, _phase_changes(before, after),
        _differing_scripts(before, after),
    )  # fmt: skip


def _differing_scripts(before: Trace, after: Trace) -> tuple[str, str] | None:
    """The names of the scripts or modules that ran, if both are known and differ."""
    first, second = (_script_name(t) for t in (before, after))
    return (first, second) if first and second and first != second else None


def _script_name(trace: Trace) -> str:
    argv = [str(a) for a in trace.fact("launch", "argv", default=()) or ()][1:]
    script = argv[1:2] if argv[:1] == ["-m"] else argv[:1]
    return PurePath(script[0]).name if script else ""


def _samples_per_step(trace: Trace) -> float:
    """Samples of a mean step; 0 unless every step's are known."""
    sizes = trace.steps.size[trace.steps.steady] if len(trace.steps.size) == len(trace.steps) else trace.steps.size[:0]
    return float(sizes.mean()) if len(sizes) and (sizes > 0).all() else 0.0


def _phase_changes(before: Trace, after: Trace) -> tuple[tuple[str, float, float], ...]:
    """The phases of both runs in ms, the largest change first."""
    first, second = ({p.name: p.ms for p in t.run.parts} for t in (before, after))
    rows = [(name, first.get(name, 0.0), second.get(name, 0.0)) for name in dict.fromkeys((*first, *second))]
    return tuple(sorted(rows, key=lambda r: -abs(r[2] - r[1])))


def _figure_change(name: str, before: Floats, after: Floats) -> Change:
    low, high = MIN_STANDARD_ERRORS * _standard_error(before), MIN_STANDARD_ERRORS * _standard_error(after)
    noise = float(np.hypot(low, high))
    first, second = _mean_or_zero(before), _mean_or_zero(after)
    return Change(name, first, second, low, high, abs(second - first) > noise)


def _mean_or_zero(column: Floats) -> float:
    return float(column.mean()) if len(column) else 0.0


def _standard_error(column: Floats) -> float:
    """Standard error of the mean, from the means of stretches; infinite if there are too few steps."""
    stretches = min(NOISE_STRETCHES, len(column) // 2)
    if stretches < 3:
        return float("inf")
    means = np.array([part.mean() for part in np.array_split(column, stretches)])
    return float(means.std(ddof=1) / np.sqrt(stretches))
