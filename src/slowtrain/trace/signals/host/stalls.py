"""Long steps and long pauses between steps: which they are, how often they occur, what ran during them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Bools, Floats, median_value, quantile
from slowtrain.columns.spans import Spans
from slowtrain.model import CATEGORY_PHRASES, Category, Place
from slowtrain.number_text import format_count, format_number
from slowtrain.trace import Trace
from slowtrain.trace.run_division import step_disturbances
from slowtrain.trace.signals import stage_growth, step_trend
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.host.host_work import sampled_places, starts_in_windows
from slowtrain.trace.signals.host.source_lines import writes_checkpoint, writes_log
from slowtrain.trace.signals.shuffle_fill import find_shuffle_fill

# Times the median of the surrounding steps. Noise with a logarithmic spread of a half, wide for steps, exceeds it
# once in 1,600 steps, and then for less than a hundredth of the run.
MIN_LONG_RATIO = 5.0
# Times the interquartile range above the median. If there are two kinds of steps, the longer kind is then no stall.
MIN_LONG_SPREADS = 8.0
MIN_STALLS = 3  # one or two long steps may be start-up, a window, or chance
# Stretches with their own median, so that steps that are slower late in the run are no stalls.
MAX_MEDIAN_STRETCHES = 32
MAX_PERIOD_DEVIATION = 0.1  # of the period; largest deviation of distances of regular stalls
MIN_REGULAR_SHARE = 0.5  # of the stalls expected with a period; with fewer there is no period


class Stall(Struct, frozen=True):
    """A long step, or a long pause after one. ``excess_ms`` is the time beyond the surrounding steps."""

    step: int
    start_ms: float
    end_ms: float
    excess_ms: float
    inside: bool


class Stalls(Struct, frozen=True):
    """Stalls of one kind. ``period`` is in steps, None if irregular; ``usual_ms`` is a step without a stall."""

    kind: str
    says: str
    each: tuple[Stall, ...]
    limit_ms: float
    usual_ms: float
    period: float | None
    where: tuple[Place, ...]
    category: Category

    @property
    def total_ms(self) -> float:
        return sum(s.excess_ms for s in self.each)

    @property
    def inside_ms(self) -> float:
        return sum(s.excess_ms for s in self.each if s.inside)


# Kinds that have a more specific cause of their own; validation, which the user wants; and the line that requests
# batches at the start of a pass, which creates an iterator.
CLAIMED_KINDS = ("callback", "logging", "trace", "build", "collection", "shuffle", "lengthening", "validation", "epoch")
KIND_WORDS = {
    "checkpoint": "a checkpoint is written",
    "python": CATEGORY_PHRASES[Category.PYTHON],
    "input": CATEGORY_PHRASES[Category.INPUT],
    "readback": CATEGORY_PHRASES[Category.READBACK],
    "feed": CATEGORY_PHRASES[Category.CONVERT],
    "callback": CATEGORY_PHRASES[Category.CALLBACK],
    "logging": "writing logs",
    "trace": "tracing",
    "build": "building layers",
    "collection": CATEGORY_PHRASES[Category.GC],
    "shuffle": "filling a shuffle buffer",
    "lengthening": "data sets that get longer",
    "validation": "a pass over other data",
    "epoch": "the start of a pass",
}
MIN_DISK_WAIT_SHARE, MIN_TAKEN_CORES = 0.1, 0.3  # of all cores' time waiting for a disk; processors used by others
MIN_FULL_SHARE = 0.8  # busy share of all cores at which none is free
TELLING_LANES = ("callback", "gc", "next", "readback", "feed")  # lanes that by themselves explain a stall
MIN_BUILD_SHARE = 0.1  # of a stall spent creating layers; saving weights also creates one, in a thousandth of its time
MIN_PASS_CALLS = 2  # function calls in one stall besides the step's own; more are a pass over other data


def find_stalls(trace: Trace) -> list[Stalls]:
    """Return the stalls of a run by kind, the largest kind first."""
    return trace.compute_once(_find_all_stalls)


def _find_all_stalls(trace: Trace) -> list[Stalls]:
    if len(trace.steps) < step_trend.MIN_TREND_STEPS or not trace.steps.training:
        return []
    usual, limit = _usual_and_limit(trace)
    stalls = [*_long_steps(trace, usual, limit), *_long_pauses(trace, limit)]
    groups: dict[tuple[str, Category], list[Stall]] = {}
    seen = _StallFacts(trace, stalls)
    for stall in stalls:
        groups.setdefault(_stall_kind(trace, stall, seen), []).append(stall)
    found = [_stalls_of_kind(trace, kind, each, limit) for kind, each in groups.items() if len(each) >= MIN_STALLS]
    return sorted(found, key=lambda s: -s.total_ms)


def _usual_and_limit(trace: Trace) -> tuple[Floats, Floats]:
    """Return the usual time of the steps around each step, and the limit above which a step is long."""
    ms, steps = trace.steps.ms, trace.steps
    plain = np.flatnonzero(steps.steady & ~steps.windowed)
    if len(plain) < step_trend.MIN_TREND_STEPS:
        return np.full(len(ms), np.inf), np.full(len(ms), np.inf)
    parts = np.array_split(plain, min(MAX_MEDIAN_STRETCHES, max(len(plain) // 50, 1)))
    at = np.array([float(p.mean()) for p in parts])
    median = np.array([float(median_value(ms[p])) for p in parts])
    lower, upper = (quantile(ms[plain], share) for share in (0.25, 0.75))
    usual = np.interp(np.arange(len(ms)), at, median)
    return usual, np.maximum(MIN_LONG_RATIO * usual, usual + MIN_LONG_SPREADS * float(upper - lower))


def _long_steps(trace: Trace, usual: Floats, limit: Floats) -> list[Stall]:
    steps, ms = trace.steps, trace.steps.ms
    chosen = np.flatnonzero(steps.steady_or_rare & ~steps.windowed & (ms > limit))
    return [
        Stall(int(i), float(steps.start_ms[i]), float(steps.end_ms[i]), float(ms[i] - usual[i]), True) for i in chosen
    ]


def _long_pauses(trace: Trace, limit: Floats) -> list[Stall]:
    """Return long pauses in a user's loop. In fit, time between steps has its own phase and causes."""
    steps = trace.steps
    if steps.source in ("fit", "fit()"):
        return []
    gap = steps.start_ms[1:] - steps.end_ms[:-1]
    # A pause may end a stretch of steps, and the last step of a stretch is an edge.
    usual = (steps.steady if steps.edge is None else steps.steady | steps.edge) & ~steps.windowed
    steady = usual[:-1] & usual[1:]
    chosen = np.flatnonzero(steady & (gap > limit[:-1]))
    found = [Stall(int(i), float(steps.end_ms[i]), float(steps.start_ms[i + 1]), float(gap[i]), False) for i in chosen]
    start, end = (np.array([getattr(s, at) for s in found]) for at in ("start_ms", "end_ms"))
    is_expected = starts_in_windows(trace, Spans(start)) | (
        intervals.covered_length(step_disturbances.stopped_times(trace.events), start, end) > 0
    )
    return [s for s, not_its_own in zip(found, is_expected, strict=True) if not not_its_own]


class _StallFacts:
    """Facts about each stall, computed for all at once, because a long run has thousands."""

    def __init__(self, trace: Trace, stalls: Sequence[Stall]) -> None:
        self._trace = trace
        self._number = {id(stall): i for i, stall in enumerate(stalls)}
        low, high = np.array([s.start_ms for s in stalls]), np.array([s.end_ms for s in stalls])
        self._covered: dict[str, Floats] = {}
        for lane in (*TELLING_LANES, "build"):
            spans = trace.lane(lane)
            mine = spans.where(spans.thread == trace.main)
            self._covered[lane] = intervals.covered_length(mine.times, low, high)
        self._begun: dict[str, Bools] = {}
        for lane in ("trace", "loop", "iterator"):
            at = np.sort(np.array([e.start_ms for e in trace.events_of(lane)]))
            self._begun[lane] = np.searchsorted(at, low) < np.searchsorted(at, high)

    @functools.cached_property
    def fills(self) -> bool:
        """Whether epochs wait for a shuffle buffer."""
        return find_shuffle_fill(self._trace) is not None

    @functools.cached_property
    def calls(self) -> int:
        """The usual number of functions that a step calls."""
        steps, at = self._trace.steps, self._trace.lane("function").start_ms
        each = np.searchsorted(at, steps.end_ms) - np.searchsorted(at, steps.start_ms)
        return int(median_value(each)) if len(each) else 0

    @functools.cached_property
    def lengthens(self) -> bool:
        """Whether each epoch's data set contains the previous one."""
        return stage_growth.find_added_stages(self._trace) is not None

    def has_begun(self, lane: str, stall: Stall) -> bool:
        """Return whether an event of that lane began during the stall."""
        return bool(self._begun[lane][self._number[id(stall)]])

    def covered_ms(self, lane: str, stall: Stall) -> float:
        """Return the time that a lane's spans of the training thread cover in a stall; nested spans count once."""
        return float(self._covered[lane][self._number[id(stall)]])


def _stall_kind(trace: Trace, stall: Stall, seen: _StallFacts) -> tuple[str, Category]:
    """Return what most of a stall was, and the category that counts its time."""
    if seen.has_begun("trace", stall):
        return "trace", Category.COMPILE
    if seen.has_begun("loop", stall):
        return "validation", Category.UNATTRIBUTED
    spent = {lane: seen.covered_ms(lane, stall) for lane in TELLING_LANES}
    lane = max(spent, key=lambda one: spent[one])
    if spent[lane] >= 0.5 * stall.excess_ms:
        if lane == "next":
            return _input_stall_kind(trace, stall, seen), Category.INPUT
        return {
            "callback": ("callback", Category.CALLBACK),
            "gc": ("collection", Category.GC),
            "readback": ("readback", Category.READBACK),
            "feed": ("feed", Category.CONVERT),
        }[lane]
    if not stall.inside:
        return _python_stall_kind(trace, stall, seen), Category.PYTHON
    if _other_pass_ms(trace, stall, seen) >= 0.5 * stall.excess_ms:
        return "validation", Category.UNATTRIBUTED
    beyond = {c: float(column[stall.step]) - trace.usual[c] for c, column in trace.categories.items()}
    largest = max(beyond, key=lambda c: beyond[c], default=Category.UNATTRIBUTED)
    if largest is Category.INPUT:
        return _input_stall_kind(trace, stall, seen), largest
    return (_python_stall_kind(trace, stall, seen) if largest is Category.PYTHON else "inside"), largest


def _input_stall_kind(trace: Trace, stall: Stall, seen: _StallFacts) -> str:
    """Return why a step waited so long for its batch."""
    if seen.fills:
        return "shuffle"
    first = stall.step == 0 or trace.steps.block[stall.step] != trace.steps.block[stall.step - 1]
    return "lengthening" if first and seen.lengthens else "input"


def _python_stall_kind(trace: Trace, stall: Stall, seen: _StallFacts) -> str:
    """Return what the script did if no span shows it: a pass over data, building, between epochs, or its own code."""
    if _other_pass_ms(trace, stall, seen) >= 0.5 * stall.excess_ms:
        return "validation"
    if seen.covered_ms("build", stall) > MIN_BUILD_SHARE * stall.excess_ms:
        return "build"
    return "between" if seen.has_begun("iterator", stall) or _asked_for_batch(trace, [stall]) else "python"


def _asked_for_batch(trace: Trace, each: Sequence[Stall]) -> bool:
    """Return whether most samples were at the line that requests batches. A single short stall may have no samples."""
    lane, heads = trace.lane("stack"), host_work.ms_by_line(trace, "next")
    met = [trace.names[int(n)].place in heads for s in each for n in lane.starting_between(s.start_ms, s.end_ms).name]
    return sum(met) >= 0.5 * len(met) and bool(met)


def _other_pass_ms(trace: Trace, stall: Stall, seen: _StallFacts) -> float:
    """Return ms from the first to the last function call in a stall, without its own step; 0 if there are too few."""
    calls = trace.lane("function")
    low, high = np.searchsorted(calls.start_ms, (stall.start_ms, stall.end_ms))
    low += seen.calls if stall.inside else 0
    if int(high - low) < MIN_PASS_CALLS:
        return 0.0
    return float(min(calls.end_ms[high - 1], stall.end_ms) - calls.start_ms[low])


def _stalls_of_kind(trace: Trace, key: tuple[str, Category], each: list[Stall], limit: Floats) -> Stalls:
    kind, category = key
    each = sorted(each, key=lambda s: s.start_ms)
    if kind == "between":  # between two epochs; other code there is the script's own
        kind = "epoch" if _asked_for_batch(trace, each) else "python"
    starts, ends = np.array([s.start_ms for s in each]), np.array([s.end_ms for s in each])
    where = sampled_places(trace, Spans(starts, ends), 0.0) if kind not in ("input", "shuffle") else ()
    if kind == "python" and any(writes_checkpoint(trace, place) for place in where[:2]):
        kind = "checkpoint"
    elif kind == "python" and any(writes_log(trace, place) for place in where[:2]):
        kind = "logging"
    period = _stall_period(step_trend.step_numbers(trace.steps)[[s.step for s in each]])
    steady = trace.steps.steady_ms
    usual = float(median_value(steady)) if len(steady) else 0.0
    says = "; meanwhile ".join(filter(None, (KIND_WORDS.get(kind, ""), _machine_text(trace, starts, ends))))
    return Stalls(kind, says, tuple(each), float(median_value(limit)), usual, period, where[:2], category)


def _stall_period(numbers: Floats) -> float | None:
    """Return the usual number of steps between stalls; None if they are not regular.

    Distances must be about multiples of it, and at least half of the expected stalls must have occurred. A period
    below two steps does not count, because any distance is a multiple of it.
    """
    distances = np.diff(np.sort(numbers))
    distances = distances[distances > 0]
    if len(distances) < 2:
        return None
    period = float(median_value(distances))
    times = np.maximum(np.round(distances / period), 1.0)
    regular = np.abs(distances - times * period) <= MAX_PERIOD_DEVIATION * period
    there = len(distances) >= MIN_REGULAR_SHARE * times.sum()
    return period if period >= 2 and there and float(regular.mean()) >= 0.8 else None


def _machine_text(trace: Trace, starts: Floats, ends: Floats) -> str:
    """Return what the machine did much more in stalls than at other times; empty if nothing."""
    waits = _means_in_and_outside(trace, trace.samples.get("iowait_share"), starts, ends)
    if waits is not None and waits[0] > max(2 * waits[1], MIN_DISK_WAIT_SHARE):
        return f"the cores waited for a disk {waits[0]:.0%} of the time"
    took = _means_in_and_outside(trace, other_process_cores(trace), starts, ends)
    if took is not None and took[0] > max(2 * took[1], MIN_TAKEN_CORES):
        return (
            f"other processes took {format_count(took[0], 'processor', 2)}, against {format_number(took[1], 2)} at "
            "other times"
        )
    return ""


def machine_cores(trace: Trace) -> float:
    """Return the processors of the machine. This process may be allowed fewer."""
    return float(trace.fact("machine", "cpu", "logical_cores", default=0) or trace.cores)


def other_process_cores(trace: Trace) -> Floats | None:
    """Return the processors that other processes used at each sample of the machine; None if not measured."""
    if any(k not in trace.samples for k in ("cpu_mean_share", "process_cpu_seconds", "time_ms")):
        return None
    cores, at = machine_cores(trace), trace.samples["time_ms"]
    own = np.append(np.nan, np.diff(trace.samples["process_cpu_seconds"]) / np.maximum(np.diff(at), 1e-9) * 1e3)
    return np.asarray(np.maximum(trace.samples["cpu_mean_share"] * cores - own, 0.0))


def crowding_cores(trace: Trace) -> float:
    """Return the processors that other processes used during the steps, if almost none were idle; else 0.

    The script's own worker processes count as others.
    """
    return trace.compute_once(_measure_crowding)


def _measure_crowding(trace: Trace) -> float:
    rest = other_process_cores(trace)
    if rest is None or not len(trace.steps):
        return 0.0
    at = trace.samples["time_ms"]
    during = (at >= trace.steps.start_ms[0]) & (at <= trace.steps.end_ms[-1]) & np.isfinite(rest)
    if not during.any() or float(np.nanmean(trace.samples["cpu_mean_share"][during])) < MIN_FULL_SHARE:
        return 0.0
    return float(rest[during].mean())


def crowding_ratio(trace: Trace) -> float:
    """Return how many times longer CPU work takes on the processors that other processes leave free; 1 or more."""
    cores = machine_cores(trace)
    return cores / max(cores - crowding_cores(trace), 1.0)


def _means_in_and_outside(
    trace: Trace, column: Floats | None, starts: Floats, ends: Floats
) -> tuple[float, float] | None:
    """Return the mean of a machine figure in the stalls and outside; None if either has no reading."""
    if column is None:
        return None
    at, is_finite = trace.samples["time_ms"], np.isfinite(column)
    # A sample covers the time since the previous one, so that one just after a stall belongs to it.
    i = np.searchsorted(starts, at, side="right") - 1
    inside = (i >= 0) & (at <= ends[i] + 250.0)
    both = [column[is_finite & side] for side in (inside, ~inside)]
    return (float(both[0].mean()), float(both[1].mean())) if len(both[0]) and len(both[1]) else None
