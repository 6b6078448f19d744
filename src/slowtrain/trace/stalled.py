"""Long steps and long pauses between steps: which they are, how often they occur, what ran during them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from slowtrain.figures import counted, plain
from slowtrain.model import SAID, Category, Place
from slowtrain.trace import Bools, Floats, Ints, Spans, Trace, intervals, lengthening, loop, stopped, trend
from slowtrain.trace.filling import fill
from slowtrain.trace.host import in_windows, logs, main_thread, sampled_places, saves
from slowtrain.trace.ordered import halfway, quantile
from slowtrain.values import dataclass

# Times the median of the surrounding steps. Noise with a logarithmic spread of a half, wide for steps, exceeds it
# once in 1,600 steps, and then for less than a hundredth of the run.
LONG = 5.0
# Times the interquartile range above the median. If there are two kinds of steps, the longer kind is then no stall.
SPREADS = 8.0
LEAST = 3  # one or two long steps may be start-up, a window, or chance
AROUND = 32  # stretches with their own median, so that steps that are slower late in the run are no stalls
REGULAR = 0.1  # of the period; largest deviation of distances of regular stalls
THERE = 0.5  # of the stalls expected with a period; with fewer there is no period


@dataclass(frozen=True)
class Stall:
    """A long step, or a long pause after one. ``excess_ms`` is the time beyond the surrounding steps."""

    step: int
    start_ms: float
    end_ms: float
    excess_ms: float
    inside: bool


@dataclass(frozen=True)
class Stalls:
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
CLAIMED = ("callback", "logging", "trace", "build", "collection", "shuffle", "lengthening", "validation", "epoch")
WORDS = {
    "checkpoint": "a checkpoint is written",
    "python": SAID[Category.PYTHON],
    "input": SAID[Category.INPUT],
    "readback": SAID[Category.READBACK],
    "feed": SAID[Category.CONVERT],
    "callback": SAID[Category.CALLBACK],
    "logging": "writing logs",
    "trace": "tracing",
    "build": "building layers",
    "collection": SAID[Category.GC],
    "shuffle": "filling a shuffle buffer",
    "lengthening": "data sets that get longer",
    "validation": "a pass over other data",
    "epoch": "the start of a pass",
}
WAITED, TAKEN = 0.1, 0.3  # of all cores' time waiting for a disk; processors used by others
FULL = 0.8  # busy share of all cores at which none is free
TOLD = ("callback", "gc", "next", "readback", "feed")  # lanes that by themselves explain a stall
BUILT = 0.1  # of a stall spent creating layers; saving weights also creates one, in a thousandth of its time
PASS = 2  # function calls in one stall besides the step's own; more are a pass over other data


def find(trace: Trace) -> list[Stalls]:
    """Return the stalls of a run by kind, the largest kind first."""
    return trace.once(_find)


def _find(trace: Trace) -> list[Stalls]:
    if len(trace.steps) < trend.LEAST_STEPS or not trace.steps.training:
        return []
    usual, limit = _usual(trace)
    stalls = [*_long_steps(trace, usual, limit), *_pauses(trace, limit)]
    groups: dict[tuple[str, Category], list[Stall]] = {}
    seen = _Seen(trace, stalls)
    for stall in stalls:
        groups.setdefault(_kind(trace, stall, seen), []).append(stall)
    found = [_stalls(trace, kind, each, limit) for kind, each in groups.items() if len(each) >= LEAST]
    return sorted(found, key=lambda s: -s.total_ms)


def _usual(trace: Trace) -> tuple[Floats, Floats]:
    """Return the usual time of the steps around each step, and the limit above which a step is long."""
    ms, steps = trace.steps.ms, trace.steps
    plain = np.flatnonzero(steps.steady & ~steps.windowed)
    if len(plain) < trend.LEAST_STEPS:
        return np.full(len(ms), np.inf), np.full(len(ms), np.inf)
    parts = np.array_split(plain, min(AROUND, max(len(plain) // 50, 1)))
    at = np.array([float(p.mean()) for p in parts])
    median = np.array([float(halfway(ms[p])) for p in parts])
    lower, upper = (quantile(ms[plain], share) for share in (0.25, 0.75))
    usual = np.interp(np.arange(len(ms)), at, median)
    return usual, np.maximum(LONG * usual, usual + SPREADS * float(upper - lower))


def _long_steps(trace: Trace, usual: Floats, limit: Floats) -> list[Stall]:
    steps, ms = trace.steps, trace.steps.ms
    chosen = np.flatnonzero(steps.told & ~steps.windowed & (ms > limit))
    return [
        Stall(int(i), float(steps.start_ms[i]), float(steps.end_ms[i]), float(ms[i] - usual[i]), True) for i in chosen
    ]


def _pauses(trace: Trace, limit: Floats) -> list[Stall]:
    """Return long pauses in a user's loop.

    In fit, time between steps has its own phase and causes.
    """
    steps = trace.steps
    if steps.source in ("fit", "fit()"):
        return []
    gap = steps.start_ms[1:] - steps.end_ms[:-1]
    # A pause may end a stretch of steps, of which the last one is an edge.
    usual = (steps.steady if steps.edge is None else steps.steady | steps.edge) & ~steps.windowed
    steady = usual[:-1] & usual[1:]
    chosen = np.flatnonzero(steady & (gap > limit[:-1]))
    found = [Stall(int(i), float(steps.end_ms[i]), float(steps.start_ms[i + 1]), float(gap[i]), False) for i in chosen]
    start, end = (np.array([getattr(s, at) for s in found]) for at in ("start_ms", "end_ms"))
    apart = in_windows(trace, Spans(start)) | (intervals.covered(stopped.stretches(trace.events), start, end) > 0)
    return [s for s, not_its_own in zip(found, apart, strict=True) if not not_its_own]


class _Seen:
    """Facts about each stall, computed for all at once, because a long run has thousands."""

    def __init__(self, trace: Trace, stalls: Sequence[Stall]) -> None:
        self._trace = trace
        self._number = {id(stall): i for i, stall in enumerate(stalls)}
        low, high = np.array([s.start_ms for s in stalls]), np.array([s.end_ms for s in stalls])
        main = main_thread(trace)
        self._covered: dict[str, Floats] = {}
        for lane in (*TOLD, "build"):
            spans = trace.lane(lane)
            mine = spans.where(spans.thread == main)
            self._covered[lane] = intervals.covered(intervals.union(mine.start_ms, mine.end_ms), low, high)
        self._begun: dict[str, Bools] = {}
        for lane in ("trace", "loop", "iterator"):
            at = np.sort(np.array([e.start_ms for e in trace.events_of(lane)]))
            self._begun[lane] = np.searchsorted(at, low) < np.searchsorted(at, high)

    @functools.cached_property
    def fills(self) -> bool:
        """Whether epochs wait for a shuffle buffer."""
        return fill(self._trace) is not None

    @functools.cached_property
    def calls(self) -> int:
        """The usual number of functions that a step calls."""
        steps, at = self._trace.steps, self._trace.lane("function").start_ms
        each = np.searchsorted(at, steps.end_ms) - np.searchsorted(at, steps.start_ms)
        return int(halfway(each)) if len(each) else 0

    @functools.cached_property
    def lengthens(self) -> bool:
        """Whether each epoch's data set contains the previous one."""
        return lengthening.stages(self._trace) is not None

    def begun(self, lane: str, stall: Stall) -> bool:
        """Return whether an event of that lane began during the stall."""
        return bool(self._begun[lane][self._number[id(stall)]])

    def covered_ms(self, lane: str, stall: Stall) -> float:
        """Return the time that a lane's spans of the training thread cover in a stall; nested spans count once."""
        return float(self._covered[lane][self._number[id(stall)]])


def _kind(trace: Trace, stall: Stall, seen: _Seen) -> tuple[str, Category]:
    """Return what most of a stall was, and the category that counts its time."""
    if seen.begun("trace", stall):
        return "trace", Category.COMPILE
    if seen.begun("loop", stall):
        return "validation", Category.UNATTRIBUTED
    spent = {lane: seen.covered_ms(lane, stall) for lane in TOLD}
    lane = max(spent, key=lambda one: spent[one])
    if spent[lane] >= 0.5 * stall.excess_ms:
        if lane == "next":
            return _waiting(trace, stall, seen), Category.INPUT
        return {
            "callback": ("callback", Category.CALLBACK),
            "gc": ("collection", Category.GC),
            "readback": ("readback", Category.READBACK),
            "feed": ("feed", Category.CONVERT),
        }[lane]
    if not stall.inside:
        return _python(trace, stall, seen), Category.PYTHON
    if _pass_ms(trace, stall, seen) >= 0.5 * stall.excess_ms:
        return "validation", Category.UNATTRIBUTED
    largest = max(trace.categories, key=lambda c: _beyond(trace, c, stall.step), default=Category.UNATTRIBUTED)
    if largest is Category.INPUT:
        return _waiting(trace, stall, seen), largest
    return (_python(trace, stall, seen) if largest is Category.PYTHON else "inside"), largest


def _waiting(trace: Trace, stall: Stall, seen: _Seen) -> str:
    """Return why a step waited so long for its batch."""
    if seen.fills:
        return "shuffle"
    first = stall.step == 0 or trace.steps.block[stall.step] != trace.steps.block[stall.step - 1]
    return "lengthening" if first and seen.lengthens else "input"


def _python(trace: Trace, stall: Stall, seen: _Seen) -> str:
    """Return what the script did if no span shows it: a pass over data, building, between epochs, or its own code."""
    if _pass_ms(trace, stall, seen) >= 0.5 * stall.excess_ms:
        return "validation"
    if seen.covered_ms("build", stall) > BUILT * stall.excess_ms:
        return "build"
    return "between" if seen.begun("iterator", stall) or _asked(trace, [stall]) else "python"


def _asked(trace: Trace, each: Sequence[Stall]) -> bool:
    """Return whether most samples were at the line that requests batches. A single short stall may have no samples."""
    lane, heads = trace.lane("stack"), loop.places(trace, "next")
    met = [trace.names[int(n)].place in heads for s in each for n in lane.between(s.start_ms, s.end_ms).name]
    return sum(met) >= 0.5 * len(met) and bool(met)


def _beyond(trace: Trace, category: Category, step: int) -> float:
    column = trace.categories[category]
    return float(column[step]) - trace.usual[category]


def _pass_ms(trace: Trace, stall: Stall, seen: _Seen) -> float:
    """Return ms from the first to the last function call in a stall, without its own step; 0 if there are too few."""
    calls = trace.lane("function")
    low, high = np.searchsorted(calls.start_ms, (stall.start_ms, stall.end_ms))
    low += seen.calls if stall.inside else 0
    if int(high - low) < PASS:
        return 0.0
    return float(min(calls.end_ms[high - 1], stall.end_ms) - calls.start_ms[low])


def _stalls(trace: Trace, key: tuple[str, Category], each: list[Stall], limit: Floats) -> Stalls:
    kind, category = key
    each = sorted(each, key=lambda s: s.start_ms)
    if kind == "between":  # between two epochs; other code there is the script's own
        kind = "epoch" if _asked(trace, each) else "python"
    starts, ends = np.array([s.start_ms for s in each]), np.array([s.end_ms for s in each])
    where = sampled_places(trace, Spans(starts, ends), 0.0) if kind not in ("input", "shuffle") else ()
    if kind == "python" and any(saves(trace, place) for place in where[:2]):
        kind = "checkpoint"
    elif kind == "python" and any(logs(trace, place) for place in where[:2]):
        kind = "logging"
    period = _period(trend.numbers(trace.steps)[[s.step for s in each]])
    steady = trace.steps.steady_ms
    usual = float(halfway(steady)) if len(steady) else 0.0
    says = _says(trace, kind, starts, ends)
    return Stalls(kind, says, tuple(each), float(halfway(limit)), usual, period, where[:2], category)


def _period(numbers: Floats) -> float | None:
    """Return the usual number of steps between stalls; None if they are not regular.

    Distances must be about multiples of it, and at least half of the expected stalls must have occurred. A period
    below two steps does not count, because any distance is a multiple of it.
    """
    apart = np.diff(np.sort(numbers))
    apart = apart[apart > 0]
    if len(apart) < 2:
        return None
    period = float(halfway(apart))
    times = np.maximum(np.round(apart / period), 1.0)
    regular = np.abs(apart - times * period) <= REGULAR * period
    there = len(apart) >= THERE * times.sum()
    return period if period >= 2 and there and float(regular.mean()) >= 0.8 else None


def _says(trace: Trace, kind: str, starts: Floats, ends: Floats) -> str:
    """Return what ran in these stalls, from their spans, and what the machine did, from its samples."""
    said, machine = WORDS.get(kind, ""), _meanwhile(trace, starts, ends)
    return "; meanwhile ".join(filter(None, (said, machine)))


def _meanwhile(trace: Trace, starts: Floats, ends: Floats) -> str:
    """Return what the machine did much more in stalls than at other times; empty if nothing."""
    waits = _during(trace, trace.samples.get("iowait_share"), starts, ends)
    if waits is not None and waits[0] > max(2 * waits[1], WAITED):
        return f"the cores waited for a disk {waits[0]:.0%} of the time"
    took = _during(trace, others(trace), starts, ends)
    if took is not None and took[0] > max(2 * took[1], TAKEN):
        return f"other processes took {counted(took[0], 'processor', 2)}, {plain(took[1], 2)} at other times"
    return ""


def machine_cores(trace: Trace) -> float:
    """Return the processors of the machine, of which this process may have a part."""
    return float(trace.fact("machine", "cpu", "logical_cores", default=0) or trace.cores)


def others(trace: Trace) -> Floats | None:
    """Return the processors that other processes used at each sample of the machine; None if not measured."""
    if any(k not in trace.samples for k in ("cpu_mean_share", "process_cpu_seconds", "time_ms")):
        return None
    cores, at = machine_cores(trace), trace.samples["time_ms"]
    own = np.append(np.nan, np.diff(trace.samples["process_cpu_seconds"]) / np.maximum(np.diff(at), 1e-9) * 1e3)
    return np.asarray(np.maximum(trace.samples["cpu_mean_share"] * cores - own, 0.0))


def crowd(trace: Trace) -> float:
    """Return the processors that other processes used during the steps, if almost none were idle; else 0.

    The script's own worker processes count as others.
    """
    return trace.once(_crowd)


def _crowd(trace: Trace) -> float:
    rest = others(trace)
    if rest is None or not len(trace.steps):
        return 0.0
    at = trace.samples["time_ms"]
    during = (at >= trace.steps.start_ms[0]) & (at <= trace.steps.end_ms[-1]) & np.isfinite(rest)
    if not during.any() or float(np.nanmean(trace.samples["cpu_mean_share"][during])) < FULL:
        return 0.0
    return float(rest[during].mean())


def stretch(trace: Trace) -> float:
    """Return how many times longer CPU work takes on the processors that other processes leave free; 1 or more."""
    cores = machine_cores(trace)
    return cores / max(cores - crowd(trace), 1.0)


def _inside(at: Floats, starts: Floats, ends: Floats) -> Bools:
    """Return which samples are in a stall or just after one; each covers the time since the previous one."""
    i: Ints = np.searchsorted(starts, at, side="right") - 1
    return np.asarray((i >= 0) & (at <= ends[np.maximum(i, 0)] + 250.0))


def _during(trace: Trace, column: Floats | None, starts: Floats, ends: Floats) -> tuple[float, float] | None:
    """Return the mean of a machine figure in the stalls and outside; None if either has no reading."""
    if column is None:
        return None
    at, told = trace.samples["time_ms"], np.isfinite(column)
    inside = _inside(at, starts, ends)
    both = [column[told & side] for side in (inside, ~inside)]
    return (float(both[0].mean()), float(both[1].mean())) if len(both[0]) and len(both[1]) else None
