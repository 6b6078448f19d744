"""Whether a series of step times grows with the step's number, with an interval that holds under autocorrelation.

The series is cut into a few equal stretches, whose medians no stall moves. The slope is that of Theil and Sen over
these medians; its interval is the widest that several numbers of stretches give, each widened by how much neighbouring
stretches still hang together: noise that comes and goes slowly makes long stretches differ more than short ones.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slowtrain.trace import Bools, Floats, Ints, Steps, Trace
from slowtrain.trace.ordered import halfway, quantile, unique
from slowtrain.values import dataclass

LEAST_STEPS = 100  # plain steps: fewer make no stretches whose medians say something
STRETCHES = (8, 12, 16, 24, 32)
LEAST_IN_STRETCH = 10
# Student's t by degrees of freedom (stretches less two): of a 95 % interval, and of one that a slope may leave in one
# run of two thousand only.
T_95 = {6: 2.447, 10: 2.228, 14: 2.145, 22: 2.074, 30: 2.042}
T_SURE = {6: 5.959, 10: 4.587, 14: 4.140, 22: 3.792, 30: 3.646}
HANGING = 0.9  # the most that neighbouring stretches are taken to hang together
LEAST_GROWTH = 0.1  # of the first steps' time, over the run: of a step a tenth is what can be told from its errors
LATE = 0.25  # of the whole slope is what the second half must have: what settles grows no more
# Of the line's error: where one jump leaves less than this, the series jumped and does not grow; two have to leave less
# again by as much, for they follow noise as well.
JUMPED = 0.6
EDGE_FIRST, EDGE_LAST = 2, 1  # steps of an epoch that fill buffers, or hold fewer samples
LEAST_EPOCH = 8  # steps: of shorter epochs each place in the epoch is compared with itself only
PLACES = 10  # parts of an epoch that are compared with themselves
LEAST_EPOCHS = 3  # for telling what a place in the epoch costs from what the epoch's number does
FASTEST = 2.0  # times its usual speed, and as much below: the most that a shared machine is taken to change by
BEYOND = FASTEST**2
RISING = 2.0  # standard errors by which later epochs are the slower ones
COMMON = 30  # steps of a size: fewer do not tell what a step of that size takes


@dataclass(frozen=True)
class Series:
    """Steps that can be compared with each other: their number in the run, their index, time, epoch."""

    number: Floats
    index: Ints
    ms: Floats
    block: Ints


@dataclass(frozen=True)
class Growth:
    """``slope_ms`` a step with its 95 % interval; ``first_ms`` and ``last_ms`` are the line at both ends of the run."""

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
        """How much slower a thousand steps make a step, of the first steps' time."""
        return 1000 * self.slope_ms / self.first_ms if self.first_ms > 0 else 0.0


def numbers(steps: Steps) -> Floats:
    """Each step's number in the run; of a thinned recording not all are there."""
    told = getattr(steps, "number", None)
    if told is not None and len(told) == len(steps):
        return np.asarray(told, dtype=float)
    return np.arange(len(steps), dtype=float)


def comparable(trace: Trace, ms: Floats | None = None) -> Series:
    """The plain steps of one loop: of several calls of ``fit`` those of the line that most steps come from.

    ``ms`` is a part of each step's time, for all of the trace's steps; without it, the whole.
    """
    return trace.once(_comparable) if ms is None else _comparable(trace, ms)


def _comparable(trace: Trace, ms: Floats | None = None) -> Series:
    steps = trace.steps
    fits = [e for e in trace.events_of("loop") if e.name == steps.source and not e.data.get("nested")]
    if len({str(e.data.get("site")) for e in fits}) < 2:
        return plain(steps, ms)
    begin, end = np.array([e.start_ms for e in fits]), np.array([e.end_ms for e in fits])
    at = np.searchsorted(begin, steps.start_ms, side="right") - 1
    inside = (at >= 0) & (steps.start_ms < end[np.maximum(at, 0)])
    sites = np.array([str(e.data.get("site")) for e in fits])[np.maximum(at, 0)]
    names, count = np.unique(sites[inside & steps.steady], return_counts=True)
    if not len(names):
        return plain(steps, ms)
    return plain(replace(steps, steady=steps.steady & inside & (sites == names[int(np.argmax(count))])), ms)


def plain(steps: Steps, ms: Floats | None = None) -> Series:
    """Steady steps as they can be compared: without the ends of epochs, for one number of samples.

    What a place in the epoch costs is taken out where there are epochs enough to tell.
    """
    keep = steps.steady & ~steps.windowed & ~_edges(steps.block)
    index = np.flatnonzero(keep)
    number, block = numbers(steps)[keep], steps.block[keep]
    ms = (steps.ms if ms is None else ms)[keep].copy()
    ms, known = _of_one_size(ms, steps.size[keep])
    found = Series(number[known], index[known], ms[known], block[known])
    return _without_places(found, _place(steps.block)[keep][known])


def _edges(block: Ints) -> Bools:
    """The first and last steps of epochs, where epochs are long enough to do without."""
    if not len(block):
        return np.zeros(0, dtype=bool)
    begins = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    length = np.diff(np.append(begins, len(block)))
    begin = np.repeat(begins, length)
    long = np.repeat(length, length) >= LEAST_EPOCH
    place, left = np.arange(len(block)) - begin, begin + np.repeat(length, length) - 1 - np.arange(len(block))
    return np.asarray(long & ((place < EDGE_FIRST) | (left < EDGE_LAST)))


def _place(block: Ints) -> Ints:
    """Each step's place in its epoch: from 0, in tenths of a usual epoch where it is long."""
    if not len(block):
        return np.zeros(0, dtype=np.int64)
    begins = np.flatnonzero(np.diff(block, prepend=block[0] - 1))
    length = np.diff(np.append(begins, len(block)))
    place = np.arange(len(block)) - np.repeat(begins, length)
    usual = max(float(halfway(length)), 1.0)
    return np.asarray(np.minimum(place * min(PLACES / usual, 1.0), PLACES).astype(np.int64))


def _of_one_size(ms: Floats, size: Ints) -> tuple[Floats, Bools]:
    """Times as steps of the usual number of samples would take them; sizes that are too rare are left out."""
    sizes, inverse, count = np.unique(size, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return ms, np.ones(len(ms), dtype=bool)
    usual = float(halfway(ms[inverse == int(np.argmax(count))]))
    of_size = np.array([float(halfway(ms[inverse == i])) for i in range(len(sizes))])
    return ms * usual / np.maximum(of_size, 1e-9)[inverse], np.asarray(count[inverse] >= COMMON)


def _without_places(found: Series, place: Ints) -> Series:
    """Without what each place in the epoch usually costs, beyond what the epochs' own growth makes."""
    epochs, inverse = np.unique(found.block, return_inverse=True)
    if len(epochs) < LEAST_EPOCHS:
        return found
    middle, at = (_medians_of(column, inverse, len(epochs)) for column in (found.ms, found.number))
    flat = found.ms - _theil_sen(*_few(at, middle)) * found.number
    usual = float(halfway(flat))
    ms = found.ms.copy()
    for here in unique(place):
        mine = place == here
        if len(unique(found.block[mine])) >= LEAST_EPOCHS:
            ms[mine] -= float(halfway(flat[mine])) - usual
    return Series(found.number, found.index, ms, found.block)


def _medians_of(values: Floats, inverse: Ints, count: int) -> Floats:
    """The median of each of ``count`` groups, none of them empty."""
    ordered = values[np.lexsort((values, inverse))]
    ends = np.cumsum(np.bincount(inverse, minlength=count))
    begins = np.append(0, ends[:-1])
    return np.asarray((ordered[(begins + ends - 1) // 2] + ordered[(begins + ends) // 2]) / 2)


def _few(x: Floats, y: Floats, most: int = 64) -> tuple[Floats, Floats]:
    """At most so many points: medians of equal stretches."""
    if len(x) <= most:
        return x, y
    return medians(x, most), medians(y, most)


def medians(values: Floats, stretches: int) -> Floats:
    """The median of each of so many equal stretches."""
    return np.array([halfway(part) for part in np.array_split(values, stretches)])


def _theil_sen(x: Floats, y: Floats) -> float:
    a, b = np.triu_indices(len(x), 1)
    apart = x[b] - x[a]
    return float(halfway((y[b] - y[a])[apart > 0] / apart[apart > 0])) if (apart > 0).any() else 0.0


def by_epoch(steps: Steps) -> Growth | None:
    """The line through the mean steps of epochs, all of each counted, without the first, which traces.

    For what shows at the beginning of epochs only. ``sure`` is told by the order of the epochs (Mann and Kendall), for
    somebody who knows a reason: what else might have slowed the machine meanwhile is not asked.
    """
    told = ~steps.windowed
    block, place = np.unique(steps.block[told], return_inverse=True)
    if len(block) < LEAST_EPOCHS + 1:
        return None
    count = np.bincount(place)
    mean, at = (np.bincount(place, values[told])[1:] / count[1:] for values in (steps.ms, numbers(steps)))
    a, b = np.triu_indices(len(mean), 1)
    slopes = (mean[b] - mean[a]) / (at[b] - at[a])
    slope, low, high = (float(quantile(slopes, share)) for share in (0.5, 0.025, 0.975))
    first, last = float(at[0]), float(at[-1])
    middle = float(halfway(mean - slope * at))
    n = len(mean)
    ordered = float(np.sign(slopes).sum()) / np.sqrt(n * (n - 1) * (2 * n + 5) / 18)  # Mann and Kendall's, by its error
    sure = ordered >= RISING
    return Growth(slope, low, high, middle + slope * first, middle + slope * last, first, last, sure)


@dataclass(frozen=True)
class _Fit:
    slope: float
    error: float
    degrees: int


def part_growth(trace: Trace, column: Floats) -> Growth | None:
    """How the step grows by one part of it alone, whose noise is much less than the whole step's; None where not."""
    whole, part = comparable(trace), comparable(trace, column)
    if len(whole.ms) < LEAST_STEPS:
        return None
    first = float(halfway(whole.ms[: len(whole.ms) // 8]))
    found = growth(at_even_speed(part, comparable(trace, trace.steps.ms - column)), LEAST_GROWTH * first)
    if found is None or not found.sure:
        return None
    last = first + found.slope_ms * (found.last_number - found.first_number)
    return replace(found, first_ms=first, last_ms=last)


def at_even_speed(part: Series, rest: Series) -> Series:
    """A part of the step as if the rest had always taken the same: a machine that is shared slows both for seconds."""
    stretches = max(s for s in STRETCHES if len(part.ms) // s >= LEAST_IN_STRETCH)
    level = medians(rest.ms, stretches)
    usual = float(halfway(level))
    scale = np.clip(usual / np.maximum(level, 1e-9), 1 / FASTEST, FASTEST) if usual > 0 else np.ones(stretches)
    lengths = [len(piece) for piece in np.array_split(part.ms, stretches)]
    return replace(part, ms=part.ms * np.repeat(scale, lengths))


def growth(series: Series, least_ms: float | None = None) -> Growth | None:
    """How the step time grows over the series; None where it is too short to say.

    ``least_ms`` of growth are asked for; without it, a share of the first steps' time.
    """
    n = len(series.ms)
    counts = [s for s in STRETCHES if n // s >= LEAST_IN_STRETCH]
    if n < LEAST_STEPS or not counts:
        return None
    fits = [_fit(medians(series.number, s), medians(series.ms, s)) for s in counts]
    x, y = medians(series.number, counts[-1]), medians(series.ms, counts[-1])
    slope = fits[-1].slope
    half = max(T_95[f.degrees] * f.error for f in fits)
    line = min(f.slope - T_SURE[f.degrees] * f.error for f in fits) > 0
    sure = line or (_beyond(y) and (least_ms is None or _rising(series.ms)))
    middle = float(halfway(y - slope * x))
    begin, end = float(series.number[0]), float(series.number[-1])
    first = max(middle + slope * begin, 0.5 * float(y[: max(len(y) // 8, 1)].mean()))
    found = Growth(slope, slope - half, slope + half, first, middle + slope * end, begin, end, False)
    lasting = _theil_sen(x[len(x) // 2 :], y[len(y) // 2 :]) >= LATE * slope
    enough = found.grown_share >= LEAST_GROWTH if least_ms is None else slope * (end - begin) >= least_ms
    grows = sure and enough and lasting and not (jumped(x, y, 1) or jumped(x, y, 2))
    return Growth(slope, slope - half, slope + half, first, found.last_ms, begin, end, grows)


def _beyond(y: Floats) -> bool:
    """Whether the last stretches differ from the first by more than a shared machine's slowest from its fastest.

    What grows along a bend leaves a line errors that hang together, as slow noise does, and its interval gets wide.
    """
    some = max(len(y) // 8, 1)
    return float(halfway(y[-some:])) > BEYOND * float(halfway(y[:some]))


def _rising(ms: Floats) -> bool:
    """Whether each of a few long stretches takes longer than the one before.

    Asked of parts, which may be next to none at first, so that a multiple of that says little.
    """
    return bool((np.diff(medians(ms, STRETCHES[0])) > 0).all())


def _fit(x: Floats, y: Floats) -> _Fit:
    """Slope and its standard error, widened for what neighbours have in common."""
    slope = _theil_sen(x, y)
    rest = y - slope * x
    rest = rest - float(np.mean(rest))
    degrees, common = len(x) - 2, hanging(rest)
    error = np.sqrt(float((rest**2).sum()) / degrees / float(((x - x.mean()) ** 2).sum()))
    return _Fit(slope, float(error * np.sqrt((1 + common) / (1 - common))), degrees)


def hanging(rest: Floats) -> float:
    """How much neighbours have in common, of what a line or two levels leave: 0 nothing, 1 all."""
    spread = float((rest**2).sum())
    common = float((rest[1:] * rest[:-1]).sum()) / spread if spread > 0 else 0.0
    # Estimated from few points after a fit was taken out, it comes out too low by about (1 + 4 r) / n.
    return min(max(common + (1 + 4 * max(common, 0.0)) / len(rest), 0.0), HANGING)


def jumped(x: Floats, y: Floats, jumps: int) -> bool:
    """Whether that many jumps tell the series better than a line."""
    line = y - np.polyval(np.polyfit(x, y, 1), x)
    return _around_levels(y, jumps) < JUMPED**jumps * float((line**2).sum())


def _around_levels(y: Floats, jumps: int) -> float:
    """The least sum of squares that is left around so many levels and one more."""
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
