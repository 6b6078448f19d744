"""Long steps and long pauses between steps: which they are, how often they come, what ran inside them."""

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

# Times the median of the steps around. Noise with a logarithmic spread of a half, which is wide for steps, gets there
# once in 1,600 steps, and then for less than a hundredth of the run.
LONG = 5.0
# And times the usual spread beyond the upper quartile: where steps are of two kinds, the longer kind is no stall.
SPREADS = 8.0
LEAST = 3  # one or two long steps are start-up, a window, or chance
AROUND = 32  # stretches with a median of their own, so that a slower late step is no stall
REGULAR = 0.1  # of the period is how far the distances of regular stalls lie from it
THERE = 0.5  # of the stalls that would come with a period: with fewer it is none


@dataclass(frozen=True)
class Stall:
    """A long step, or a long pause after one. ``excess_ms`` is what exceeds the steps around."""

    step: int
    start_ms: float
    end_ms: float
    excess_ms: float
    inside: bool


@dataclass(frozen=True)
class Stalls:
    """Stalls of one kind. ``period`` is in steps, None where they come irregularly; ``usual_ms`` a step without."""

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


# What has a cause of its own, which tells more of it; validation, which somebody asked for; and the line that asks for
# batches when it begins a pass, which makes an iterator.
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
WAITED, TAKEN = 0.1, 0.3  # of all cores' time for a disk; processors that others took: less explains no long step
FULL = 0.8  # busy share of all cores at which none is left for what else wants one
TOLD = ("callback", "gc", "next", "readback", "feed")  # lanes that tell by themselves what a stall was
BUILT = 0.1  # of a stall in layers being made: saving weights makes one, too, in a thousandth of its time
PASS = 2  # calls of functions in one stall, the step's own not counted: more than a step does, a pass over other data


def find(trace: Trace) -> list[Stalls]:
    """The stalls of a run by kind, those of the largest kind first."""
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
    """The usual time of the steps around each step, and the limit beyond which one is long."""
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
    """Of a loop of the user's own: within fit, all that lies between steps has its phase and its causes."""
    steps = trace.steps
    if steps.source in ("fit", "fit()"):
        return []
    gap = steps.start_ms[1:] - steps.end_ms[:-1]
    # A pause may end a stretch of steps, whose last one is its edge.
    usual = (steps.steady if steps.edge is None else steps.steady | steps.edge) & ~steps.windowed
    steady = usual[:-1] & usual[1:]
    chosen = np.flatnonzero(steady & (gap > limit[:-1]))
    found = [Stall(int(i), float(steps.end_ms[i]), float(steps.start_ms[i + 1]), float(gap[i]), False) for i in chosen]
    start, end = (np.array([getattr(s, at) for s in found]) for at in ("start_ms", "end_ms"))
    apart = in_windows(trace, Spans(start)) | (intervals.covered(stopped.stretches(trace.events), start, end) > 0)
    return [s for s, not_its_own in zip(found, apart, strict=True) if not not_its_own]


class _Seen:
    """What is asked of each stall, made for all at once: of a long run there are thousands."""

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
        """Functions that a step calls, usually."""
        steps, at = self._trace.steps, self._trace.lane("function").start_ms
        each = np.searchsorted(at, steps.end_ms) - np.searchsorted(at, steps.start_ms)
        return int(halfway(each)) if len(each) else 0

    @functools.cached_property
    def lengthens(self) -> bool:
        """Whether each epoch's data set holds the one before."""
        return lengthening.stages(self._trace) is not None

    def begun(self, lane: str, stall: Stall) -> bool:
        """Whether an event of that lane began in the stall."""
        return bool(self._begun[lane][self._number[id(stall)]])

    def covered_ms(self, lane: str, stall: Stall) -> float:
        """Of a lane's spans of the training thread within a stall; of spans in each other the outer one."""
        return float(self._covered[lane][self._number[id(stall)]])


def _kind(trace: Trace, stall: Stall, seen: _Seen) -> tuple[str, Category]:
    """What most of a stall was, and the category that its time is counted in."""
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
    """Why a step waited so long for its batch."""
    if seen.fills:
        return "shuffle"
    first = stall.step == 0 or trace.steps.block[stall.step] != trace.steps.block[stall.step - 1]
    return "lengthening" if first and seen.lengthens else "input"


def _python(trace: Trace, stall: Stall, seen: _Seen) -> str:
    """What the script did where no span tells: a pass over data, building, what lies between two epochs, its own."""
    if _pass_ms(trace, stall, seen) >= 0.5 * stall.excess_ms:
        return "validation"
    if seen.covered_ms("build", stall) > BUILT * stall.excess_ms:
        return "build"
    return "between" if seen.begun("iterator", stall) or _asked(trace, [stall]) else "python"


def _asked(trace: Trace, each: Sequence[Stall]) -> bool:
    """Whether the script was mostly met at the line that asks for batches. Of one short stall alone none may tell."""
    lane, heads = trace.lane("stack"), loop.places(trace, "next")
    met = [trace.names[int(n)].place in heads for s in each for n in lane.between(s.start_ms, s.end_ms).name]
    return sum(met) >= 0.5 * len(met) and bool(met)


def _beyond(trace: Trace, category: Category, step: int) -> float:
    column = trace.categories[category]
    return float(column[step]) - trace.usual[category]


def _pass_ms(trace: Trace, stall: Stall, seen: _Seen) -> float:
    """From the first to the last call of a function in a stall, its own step's apart; 0 for fewer than a pass has."""
    calls = trace.lane("function")
    low, high = np.searchsorted(calls.start_ms, (stall.start_ms, stall.end_ms))
    low += seen.calls if stall.inside else 0
    if int(high - low) < PASS:
        return 0.0
    return float(min(calls.end_ms[high - 1], stall.end_ms) - calls.start_ms[low])


def _stalls(trace: Trace, key: tuple[str, Category], each: list[Stall], limit: Floats) -> Stalls:
    kind, category = key
    each = sorted(each, key=lambda s: s.start_ms)
    if kind == "between":  # two epochs; what the script itself does there is its own
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
    """Steps from one stall to the next, where that is always about the same or a multiple of it, and half are there.

    Of a few steps only the same number again will do: within one step of a multiple of two lies any number.
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
    """What ran in these stalls, by their spans; and what the machine did meanwhile, by its samples."""
    said, machine = WORDS.get(kind, ""), _meanwhile(trace, starts, ends)
    return "; meanwhile ".join(filter(None, (said, machine)))


def _meanwhile(trace: Trace, starts: Floats, ends: Floats) -> str:
    """What the machine did in stalls far more than apart from them."""
    waits = _during(trace, trace.samples.get("iowait_share"), starts, ends)
    if waits is not None and waits[0] > max(2 * waits[1], WAITED):
        return f"the cores waited for a disk {waits[0]:.0%} of the time"
    took = _during(trace, others(trace), starts, ends)
    if took is not None and took[0] > max(2 * took[1], TAKEN):
        return f"other processes took {counted(took[0], 'processor', 2)}, {plain(took[1], 2)} at other times"
    return ""


def machine_cores(trace: Trace) -> float:
    """Processors of the machine, of which this process may be given a part."""
    return float(trace.fact("machine", "cpu", "logical_cores", default=0) or trace.cores)


def others(trace: Trace) -> Floats | None:
    """Processors that other processes took, at each sample of the machine; None where it was not measured."""
    if any(k not in trace.samples for k in ("cpu_mean_share", "process_cpu_seconds", "time_ms")):
        return None
    cores, at = machine_cores(trace), trace.samples["time_ms"]
    own = np.append(np.nan, np.diff(trace.samples["process_cpu_seconds"]) / np.maximum(np.diff(at), 1e-9) * 1e3)
    return np.asarray(np.maximum(trace.samples["cpu_mean_share"] * cores - own, 0.0))


def crowd(trace: Trace) -> float:
    """Processors that other processes took from the first step to the last, where these left next to none idle; or 0.

    Worker processes of the script's own count as others.
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
    """How many times as long as alone what needs a core takes, with the part that other processes leave; 1 or more."""
    cores = machine_cores(trace)
    return cores / max(cores - crowd(trace), 1.0)


def _inside(at: Floats, starts: Floats, ends: Floats) -> Bools:
    """Samples in a stall or just behind one: each tells of the time since the one before it."""
    i: Ints = np.searchsorted(starts, at, side="right") - 1
    return np.asarray((i >= 0) & (at <= ends[np.maximum(i, 0)] + 250.0))


def _during(trace: Trace, column: Floats | None, starts: Floats, ends: Floats) -> tuple[float, float] | None:
    """The mean of the machine's figure in the stalls and apart from them; None where one was not read."""
    if column is None:
        return None
    at, told = trace.samples["time_ms"], np.isfinite(column)
    inside = _inside(at, starts, ends)
    both = [column[told & side] for side in (inside, ~inside)]
    return (float(both[0].mean()), float(both[1].mean())) if len(both[0]) and len(both[1]) else None
