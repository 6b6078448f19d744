"""Whether a series of step times grows with the step number, with an interval that holds under autocorrelation.

The series is cut into a few equal stretches, whose medians no stall changes. The slope is the Theil-Sen slope of
these medians. Its interval is the widest of several numbers of stretches, each widened by the autocorrelation of
neighbouring stretches: slow noise makes long stretches differ more than short ones.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, Ints, distinct_values, median_value, quantile
from slowtrain.columns.steps import Steps
from slowtrain.trace import Trace

MIN_TREND_STEPS = 100  # plain steps; fewer give no stretches with meaningful medians
STRETCH_COUNTS = (8, 12, 16, 24, 32)
MIN_STEPS_PER_STRETCH = 10
# Student's t by degrees of freedom (stretches less two): for a 95 % interval, and for one that a slope exceeds in one
# of two thousand runs only.
T_95_BY_DEGREES = {6: 2.447, 10: 2.228, 14: 2.145, 22: 2.074, 30: 2.042}
T_SURE_BY_DEGREES = {6: 5.959, 10: 4.587, 14: 4.140, 22: 3.792, 30: 3.646}
MAX_AUTOCORRELATION = 0.9  # upper bound of the autocorrelation of neighbouring stretches
MIN_GROWTH_SHARE = 0.1  # of the first steps' time, over the run; smaller growth is within the errors
MIN_LATE_SLOPE_SHARE = 0.25  # of the whole slope; the second half must have this much, or the growth has ended
# Relative to the line's error. If one jump leaves less than this, the series jumped and does not grow; two must leave
# less again by the same factor, because they also fit noise.
MAX_JUMP_RESIDUAL = 0.6
FIRST_EDGE_STEPS, LAST_EDGE_STEPS = 2, 1  # steps of an epoch that fill buffers, or have fewer samples
MIN_LONG_EPOCH_STEPS = 8  # steps; in shorter epochs edges are kept, and each place is compared with itself only
PLACES_PER_EPOCH = 10  # parts of an epoch, each compared with itself
MAX_EPOCH_POINTS = 64  # of a line through epochs, as medians of equal stretches
MIN_EPOCHS = 3  # needed to separate the cost of a place in the epoch from that of the epoch's number
MAX_SPEED_RATIO = 2.0  # factor above and below its usual speed within which a shared machine is assumed to vary
MIN_BEYOND_RATIO = MAX_SPEED_RATIO**2
MIN_RISING_ERRORS = 2.0  # standard errors by which later epochs are slower
MIN_STEPS_OF_SIZE = 30  # steps of one size; fewer do not show the time of a step of that size


class StepSeries(Struct, frozen=True):
    """Steps that can be compared with each other: number in the run, index, time, epoch."""

    number: Floats
    index: Ints
    ms: Floats
    block: Ints


class StepGrowth(Struct, frozen=True):
    """``slope_ms`` per step with its 95 % interval; ``first_ms`` and ``last_ms`` are the line's ends."""

    slope_ms: float
    low_ms: float
    high_ms: float
    first_ms: float
    last_ms: float
    first_number: float
    last_number: float
    sure: bool

    @property
    def grown_share(self) -> float:
        return self.last_ms / self.first_ms - 1 if self.first_ms > 0 else 0.0

    @property
    def per_thousand_share(self) -> float:
        """How much slower a step gets in a thousand steps, relative to the first steps."""
        return 1000 * self.slope_ms / self.first_ms if self.first_ms > 0 else 0.0


def step_numbers(steps: Steps) -> Floats:
    """Return each step's number in the run; a thinned recording does not contain all steps."""
    return steps.number.astype(float)


def comparable_steps(trace: Trace, ms: Floats | None = None) -> StepSeries:
    """Return the plain steps of one loop; of several calls of ``fit`` those of the line with the most steps.

    ``ms`` is a part of each step's time, for all of the trace's steps; the whole time without it.
    """
    return trace.compute_once(_steps_of_main_loop) if ms is None else _steps_of_main_loop(trace, ms)


def _steps_of_main_loop(trace: Trace, ms: Floats | None = None) -> StepSeries:
    steps = trace.steps
    fits = [e for e in trace.events_of("loop") if e.name == steps.source and not e.data.get("nested")]
    if len({str(e.data.get("site")) for e in fits}) < 2:
        return plain_steps(steps, ms)
    begin, end = np.array([e.start_ms for e in fits]), np.array([e.end_ms for e in fits])
    at = intervals.containing_range(begin, end, steps.start_ms)
    inside, sites = at >= 0, np.array([str(e.data.get("site")) for e in fits])[at]
    names, count = np.unique(sites[inside & steps.steady], return_counts=True)
    if not len(names):
        return plain_steps(steps, ms)
    return plain_steps(replace(steps, steady=steps.steady & inside & (sites == names[int(np.argmax(count))])), ms)


def plain_steps(steps: Steps, ms: Floats | None = None) -> StepSeries:
    """Return comparable steady steps: without the ends of epochs, and for one number of samples.

    The cost of each place in the epoch is removed if there are enough epochs to know it.
    """
    place, length = _places_in_epochs(steps.block)
    edge = (place < FIRST_EDGE_STEPS) | (length - 1 - place < LAST_EDGE_STEPS)
    keep = steps.steady & ~steps.windowed & ~(edge & (length >= MIN_LONG_EPOCH_STEPS))
    index = np.flatnonzero(keep)
    number, block = step_numbers(steps)[keep], steps.block[keep]
    ms = (steps.ms if ms is None else ms)[keep].copy()
    ms, known = _scaled_to_usual_size(ms, steps.size[keep])
    found = StepSeries(number[known], index[known], ms[known], block[known])
    # Places are counted in tenths of a usual epoch if that is long.
    usual = max(float(median_value(length[place == 0])), 1.0) if len(place) else 1.0
    place = np.minimum(place * min(PLACES_PER_EPOCH / usual, 1.0), PLACES_PER_EPOCH).astype(np.int64)
    return _without_place_costs(found, place[keep][known])


def _places_in_epochs(block: Ints) -> tuple[Ints, Ints]:
    """Return each step's place in its epoch, from 0, and the length of that epoch."""
    begins = np.flatnonzero(np.diff(block, prepend=block[:1] - 1))
    length = np.diff(np.append(begins, len(block)))
    return np.arange(len(block)) - np.repeat(begins, length), np.repeat(length, length)


def _scaled_to_usual_size(ms: Floats, size: Ints) -> tuple[Floats, Bools]:
    """Scale times to the usual number of samples, and drop sizes that are too rare."""
    sizes, inverse, count = np.unique(size, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return ms, np.ones(len(ms), dtype=bool)
    usual = float(median_value(ms[inverse == int(np.argmax(count))]))
    of_size = np.array([float(median_value(ms[inverse == i])) for i in range(len(sizes))])
    return ms * usual / np.maximum(of_size, 1e-9)[inverse], np.asarray(count[inverse] >= MIN_STEPS_OF_SIZE)


def _without_place_costs(found: StepSeries, place: Ints) -> StepSeries:
    """Remove the usual cost of each place in the epoch, beyond the epochs' own growth."""
    epochs, inverse = np.unique(found.block, return_inverse=True)
    if len(epochs) < MIN_EPOCHS:
        return found
    middle, at = (_group_medians(column, inverse, len(epochs)) for column in (found.ms, found.number))
    points = min(len(at), MAX_EPOCH_POINTS)
    flat = found.ms - _theil_sen(stretch_medians(at, points), stretch_medians(middle, points)) * found.number
    usual = float(median_value(flat))
    ms = found.ms.copy()
    for here in distinct_values(place):
        mine = place == here
        if len(distinct_values(found.block[mine])) >= MIN_EPOCHS:
            ms[mine] -= float(median_value(flat[mine])) - usual
    return StepSeries(found.number, found.index, ms, found.block)


def _group_medians(values: Floats, inverse: Ints, count: int) -> Floats:
    """Return the median of each of ``count`` groups, none of them empty."""
    ordered = values[np.lexsort((values, inverse))]
    ends = np.cumsum(np.bincount(inverse, minlength=count))
    begins = np.append(0, ends[:-1])
    return np.asarray((ordered[(begins + ends - 1) // 2] + ordered[(begins + ends) // 2]) / 2)


def stretch_medians(values: Floats, stretches: int) -> Floats:
    """Return the medians of this many equal stretches."""
    return np.array([median_value(part) for part in np.array_split(values, stretches)])


def _theil_sen(x: Floats, y: Floats) -> float:
    a, b = np.triu_indices(len(x), 1)
    distance = x[b] - x[a]
    return float(median_value((y[b] - y[a])[distance > 0] / distance[distance > 0])) if (distance > 0).any() else 0.0


def epoch_growth(steps: Steps) -> StepGrowth | None:
    """Return the line through the mean steps of epochs without the first one, which traces.

    For effects at the beginning of epochs only. ``sure`` comes from the order of the epochs (Mann-Kendall test), for
    callers that know a reason. It does not exclude that something else slowed the machine.
    """
    is_counted = ~steps.windowed
    block, place = np.unique(steps.block[is_counted], return_inverse=True)
    if len(block) < MIN_EPOCHS + 1:
        return None
    count = np.bincount(place)
    mean, at = (np.bincount(place, values[is_counted])[1:] / count[1:] for values in (steps.ms, step_numbers(steps)))
    a, b = np.triu_indices(len(mean), 1)
    slopes = (mean[b] - mean[a]) / (at[b] - at[a])
    slope, low, high = (float(quantile(slopes, share)) for share in (0.5, 0.025, 0.975))
    first, last = float(at[0]), float(at[-1])
    middle = float(median_value(mean - slope * at))
    n = len(mean)
    ordered = float(np.sign(slopes).sum()) / np.sqrt(n * (n - 1) * (2 * n + 5) / 18)  # Mann-Kendall
    sure = ordered >= MIN_RISING_ERRORS
    return StepGrowth(slope, low, high, middle + slope * first, middle + slope * last, first, last, sure)


class _LineFit(Struct, frozen=True):
    slope: float
    error: float
    degrees: int


def part_growth(trace: Trace, column: Floats) -> StepGrowth | None:
    """Return how the step grows by one part alone, which has much less noise than the whole; None if not surely."""
    whole, part = comparable_steps(trace), comparable_steps(trace, column)
    if len(whole.ms) < MIN_TREND_STEPS:
        return None
    first = float(median_value(whole.ms[: len(whole.ms) // 8]))
    found = series_growth(
        at_constant_speed(part, comparable_steps(trace, trace.steps.ms - column)), MIN_GROWTH_SHARE * first
    )
    if found is None or not found.sure:
        return None
    last = first + found.slope_ms * (found.last_number - found.first_number)
    return replace(found, first_ms=first, last_ms=last)


def at_constant_speed(part: StepSeries, rest: StepSeries) -> StepSeries:
    """Return a part of the step as if the rest had constant time, because a shared machine slows both for seconds."""
    stretches = max(s for s in STRETCH_COUNTS if len(part.ms) // s >= MIN_STEPS_PER_STRETCH)
    level = stretch_medians(rest.ms, stretches)
    usual = float(median_value(level))
    scale = (
        np.clip(usual / np.maximum(level, 1e-9), 1 / MAX_SPEED_RATIO, MAX_SPEED_RATIO)
        if usual > 0
        else np.ones(stretches)
    )
    lengths = [len(piece) for piece in np.array_split(part.ms, stretches)]
    return replace(part, ms=part.ms * np.repeat(scale, lengths))


def series_growth(series: StepSeries, least_ms: float | None = None) -> StepGrowth | None:
    """Return how the step time grows over the series; None if it is too short.

    At least ``least_ms`` of growth are required; without it, a share of the first steps' time.
    """
    n = len(series.ms)
    counts = [s for s in STRETCH_COUNTS if n // s >= MIN_STEPS_PER_STRETCH]
    if n < MIN_TREND_STEPS or not counts:
        return None
    fits = [_fit_line(stretch_medians(series.number, s), stretch_medians(series.ms, s)) for s in counts]
    x, y = stretch_medians(series.number, counts[-1]), stretch_medians(series.ms, counts[-1])
    slope = fits[-1].slope
    half = max(T_95_BY_DEGREES[f.degrees] * f.error for f in fits)
    line = min(f.slope - T_SURE_BY_DEGREES[f.degrees] * f.error for f in fits) > 0
    sure = line or (_exceeds_machine_range(y) and (least_ms is None or _rises_throughout(series.ms)))
    middle = float(median_value(y - slope * x))
    begin, end = float(series.number[0]), float(series.number[-1])
    first = max(middle + slope * begin, 0.5 * float(y[: max(len(y) // 8, 1)].mean()))
    found = StepGrowth(slope, slope - half, slope + half, first, middle + slope * end, begin, end, False)
    lasting = _theil_sen(x[len(x) // 2 :], y[len(y) // 2 :]) >= MIN_LATE_SLOPE_SHARE * slope
    enough = found.grown_share >= MIN_GROWTH_SHARE if least_ms is None else slope * (end - begin) >= least_ms
    grows = sure and enough and lasting and not (jumps_explain_better(x, y, 1) or jumps_explain_better(x, y, 2))
    return StepGrowth(slope, slope - half, slope + half, first, found.last_ms, begin, end, grows)


def _exceeds_machine_range(y: Floats) -> bool:
    """Return whether the last stretches differ from the first by more than a shared machine's speed varies.

    Curved growth leaves autocorrelated residuals around a line, like slow noise, and a wide interval.
    """
    some = max(len(y) // 8, 1)
    return float(median_value(y[-some:])) > MIN_BEYOND_RATIO * float(median_value(y[:some]))


def _rises_throughout(ms: Floats) -> bool:
    """Return whether each of a few long stretches takes longer than the one before.

    Required for parts of a step, which may be close to zero at first, so that a multiple says little.
    """
    return bool((np.diff(stretch_medians(ms, STRETCH_COUNTS[0])) > 0).all())


def _fit_line(x: Floats, y: Floats) -> _LineFit:
    """Return the slope and its standard error, widened for autocorrelation."""
    slope = _theil_sen(x, y)
    rest = y - slope * x
    rest = rest - float(np.mean(rest))
    degrees, common = len(x) - 2, autocorrelation_of(rest)
    error = np.sqrt(float((rest**2).sum()) / degrees / float(((x - x.mean()) ** 2).sum()))
    return _LineFit(slope, float(error * np.sqrt((1 + common) / (1 - common))), degrees)


def autocorrelation_of(rest: Floats) -> float:
    """Return the autocorrelation of residuals at lag 1, from 0 to an upper bound below 1."""
    spread = float((rest**2).sum())
    common = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    # From few points after a fit, the estimate is too low by about (1 + 4 r) / n.
    return min(max(common + (1 + 4 * max(common, 0.0)) / len(rest), 0.0), MAX_AUTOCORRELATION)


def jumps_explain_better(x: Floats, y: Floats, jumps: int) -> bool:
    """Return whether that many jumps explain the series better than a line."""
    line = y - np.polyval(np.polyfit(x, y, 1), x)
    return _residual_around_levels(y, jumps) < MAX_JUMP_RESIDUAL**jumps * float((line**2).sum())


def _residual_around_levels(y: Floats, jumps: int) -> float:
    """Return the least sum of squares around ``jumps + 1`` levels."""
    n = len(y)
    once, squares = (np.concatenate(([0.0], np.cumsum(values))) for values in (y, y**2))
    low, high = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    length = np.maximum(high - low, 1)
    around = squares[high] - squares[low] - (once[high] - once[low]) ** 2 / length
    around[high <= low] = np.inf
    left = around[0]
    for _ in range(min(jumps, n - 1)):
        left = (left[:, None] + around).min(axis=0)
    return max(float(left[n]), 0.0)
