"""Memory that grows while steps are taken: how fast, with a confidence interval, and what grew with it.

Each value of memory begins where the last one ended, so that a line through the series has far too narrow an
interval. The independent observations here are the increments between about ten long stretches of the run. The
interval becomes wider if neighbouring increments resemble each other. A jump, however high, is one increment. A
plateau ends the growth. Only growth that continues to the end counts.

A random walk exceeds such an interval by chance in one run of forty. It is distinguished from noise around a line by
its spread, which grows with the distance in time. For such a run the mean of shorter and therefore more numerous
increments has to be far from zero relative to their spread. See docs/leaks.md.
"""

from __future__ import annotations

import itertools

import numpy as np
from msgspec import Struct

from slowtrain.columns.arrays import Bools, Floats, distinct_values, median_value, quantile
from slowtrain.columns.spans import Event
from slowtrain.model import Place
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals import step_trend

MEMORY_STRETCHES = 12  # stretches of the run whose increments are compared
MIN_STRETCHES = 5
FINE_STRETCHES = 24
MIN_FINE_INCREMENTS = 12  # increments; fewer cannot identify a random walk
# Increments summed up, whose spread is compared with that of one; a random walk's is twice as large.
INCREMENTS_TOGETHER = 4
MAX_LINE_VARIANCE_SHARE = 0.5  # of a random walk's variance; noise around a line has less, a walk more
WARM_UP_SHARE = 0.25  # of the steps; pools, kernel caches and thread arenas fill in the first ones
MIN_LAST_QUARTER_SHARE = 0.3  # of the mean growth that the last quarter must have; less is the start of a plateau
BASE_QUANTILE = 0.25  # quantile of a stretch; above it are tensors that a step needs for a moment
MIN_LOOP_CALLS = 5  # calls of fit, predict or evaluate on one line from which growth is reported per call
MAX_LOOP_CALLS = 24
MIN_PACE_PER_STEP = 0.5  # per step; smaller rates are reported per thousand steps

# One-sided 99.5 % quantiles of Student's t by degrees of freedom, from ten degrees on.
STUDENT_T_995 = (3.17, 3.11, 3.05, 3.01, 2.98, 2.95, 2.92, 2.90, 2.88, 2.86, 2.85, 2.83, 2.82)

MIN_WRAPPED_BYTES = 2.0**62  # TensorFlow's unsigned count of buffered bytes wraps below zero

# Two-sided 95 % quantiles of Student's t by degrees of freedom; for more degrees the last one is used.
STUDENT_T_95 = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
)  # fmt: skip


class MemorySlope(Struct, frozen=True):
    """Bytes ``per_step``, within ``low`` and ``high`` (95 %); ``total_bytes`` were gained over ``steps``."""

    per_step: float
    low: float
    high: float
    total_bytes: float
    steps: float

    @property
    def grows(self) -> bool:
        return self.low > 0

    def describe(self, unit: GrowthUnit) -> str:
        per, low, high = (format_bytes(v * unit.steps) for v in (self.per_step, self.low, self.high))
        grown = f"memory grew by {format_bytes(self.total_bytes)} in {self.steps:,.0f} steps"
        return f"{grown}, {per} per {unit.name}" + (f" ({low} to {high})" if self.low < self.high else "")

    def hours(self, left: float | None, step_ms: float, slower_ms: float = 0.0) -> float | None:
        """Return the hours until ``left`` bytes are full, if each step is ``slower_ms`` longer than the last.

        None if unknown.
        """
        if left is None or not step_ms:
            return None
        steps = left / self.per_step
        return steps * (step_ms + slower_ms * steps / 2) / 3.6e6

    def numbers(self, hours: float | None) -> dict[str, float]:
        names = "per_step_bytes", "low_bytes", "high_bytes", "grown_bytes"
        found = dict(zip(names, (self.per_step, self.low, self.high, self.total_bytes), strict=True))
        return found | ({"full_in_h": hours} if hours is not None else {})

    def time_until_full(self, left: float | None, hours: float | None) -> str:
        """Return a clause about when memory is full; empty if unknown."""
        if left is None or hours is None:
            return ""
        time = f"{format_number(hours)} h" if hours >= 1 else f"{format_number(60 * hours)} min"
        return f"the remaining {format_bytes(left)} are used up after {left / self.per_step:,.0f} more steps ({time})"


class GrowthUnit(Struct, frozen=True):
    """The unit in which growth is reported: ``steps`` steps are one ``name``."""

    name: str
    steps: float
    place: Place | None = None
    count: int = 0

    def pace(self, per_step: float) -> str:
        """Return a count per step in words."""
        if self.place is not None:
            return f"{format_number(per_step * self.steps)} per {self.name}"
        if per_step < MIN_PACE_PER_STEP:
            return f"{format_number(1000 * per_step)} in a thousand steps"
        return f"{format_number(per_step)} a step"


def process_memory(trace: Trace) -> tuple[Floats, Floats]:
    """Return times and bytes of the process's own memory."""
    spans = trace.lane("memory")
    mine = spans.where(np.array([trace.names[int(n)].text == "anonymous" for n in spans.name], dtype=bool))
    if len(mine):
        return mine.start_ms, mine.value.astype(np.float64)
    at, known = trace.samples.get("time_ms"), trace.samples.get("rss_bytes")
    if at is None or known is None:
        return np.zeros(0), np.zeros(0)
    keep = np.isfinite(known)
    return at[keep], known[keep]


def device_memory(trace: Trace, what: str = "") -> dict[str, tuple[Floats, Floats]]:
    """Return the same for what the framework's allocator had in use on each device.

    ``what``: ``"peak "`` for the maximum so far, ``"free "`` for the free part of its pool, if known.
    """
    spans = trace.lane("memory")
    found = {}
    for number in distinct_values(spans.name):
        text = trace.names[int(number)].text
        if text.startswith(f"{what}GPU"):
            mine = spans.where(spans.name == number)
            found[text.removeprefix(what)] = (mine.start_ms, mine.value.astype(np.float64))
    return found


def memory_slope(trace: Trace, at_ms: Floats, bytes_used: Floats) -> MemorySlope | None:
    """Return how memory grew after warm-up, outside profiler windows; None with too little data."""
    steps = trace.steps
    if not len(steps) or not len(at_ms):
        return None
    x, y = _memory_over_steps(trace, at_ms, bytes_used)
    warm = max(float(np.flatnonzero(steps.steady)[0]) if steps.steady.any() else 0.0, WARM_UP_SHARE * len(steps))
    edges = _stretch_edges(trace, warm, float(x[-1])) if len(x) else np.zeros(0)
    gains = _stretch_gains(x, y, edges)
    if len(gains) < MIN_STRETCHES - 1:
        return None
    each, lengths = gains[:, 1] / gains[:, 0], gains[:, 0]
    covered, total = float(lengths.sum()), float(gains[:, 1].sum())
    mean = total / covered
    # Half the confidence interval of a mean of increments.
    margin = STUDENT_T_95[min(len(each) - 2, len(STUDENT_T_95) - 1)] * _standard_error(each)
    last = max(len(gains) // 4, 1)
    lasting = gains[-last:, 1].sum() / gains[-last:, 0].sum() >= MIN_LAST_QUARTER_SHARE * mean
    believed = lasting and not _may_be_random_walk(
        _stretch_gains(x, y, np.linspace(warm, float(x[-1]), FINE_STRETCHES + 1))
    )
    low = mean - margin if believed or mean <= 0 else min(mean - margin, 0.0)
    return MemorySlope(mean, low, mean + margin, total, covered)


def _standard_error(each: Floats) -> float:
    """Return the standard error of a mean of increments, wider if neighbours resemble each other."""
    n = len(each)
    off = each - each.mean()
    spread = float(np.sqrt((off**2).sum() / (n - 1)))
    alike = float((off[1:] * off[:-1]).sum() / (off**2).sum()) if spread > 0 else 0.0
    alike = min(max(alike, 0.0), 0.7)
    return spread * float(np.sqrt((1 + alike) / (1 - alike) / n))


def _may_be_random_walk(gains: Floats) -> bool:
    """Return whether the growth may be a random walk: increments do not cancel out, and their mean is near zero."""
    if len(gains) < MIN_FINE_INCREMENTS:
        return False
    each = gains[:, 1] / gains[:, 0]
    off = each - each.mean()
    far = np.convolve(off, np.ones(INCREMENTS_TOGETHER), "valid")
    if float((far**2).mean()) <= MAX_LINE_VARIANCE_SHARE * INCREMENTS_TOGETHER * float((off**2).mean()):
        return False
    quantile_of = STUDENT_T_995[min(len(each) - MIN_FINE_INCREMENTS, len(STUDENT_T_995) - 1)]
    return float(each.mean()) <= quantile_of * _standard_error(each)


def _memory_over_steps(trace: Trace, at_ms: Floats, bytes_used: Floats) -> tuple[Floats, Floats]:
    """Return memory over steps done, without profiler windows, because the profiler keeps its records in memory."""
    steps = trace.steps
    keep = (at_ms >= steps.start_ms[0]) & (at_ms <= steps.end_ms[-1])
    at, y = at_ms[keep], bytes_used[keep].copy()
    x = steps_done_at(trace, at)
    inside = np.zeros(len(at), dtype=bool)
    for event in trace.events_of("window"):
        if event.name in ("lines", "objects"):  # tracing lines and counting objects keep almost no memory
            continue
        mine = (at >= event.start_ms) & (at <= event.end_ms)
        inside |= mine
        before = np.flatnonzero((at < event.start_ms) & ~inside)[-3:]
        after = np.flatnonzero((at > event.end_ms) & ~inside)
        if len(before) and len(after):
            # Leaves out the same steps as memory, which may grow in the meantime.
            near = after[:3]
            y[after] -= median_value(y[near]) - median_value(y[before])
            x[after] -= median_value(x[near]) - median_value(x[before])
    return x[~inside], y[~inside]


def steps_done_at(trace: Trace, at_ms: Floats) -> Floats:
    """Return the steps that had ended by each moment, including those of thinned stretches."""
    done = np.concatenate(([0.0], step_trend.step_numbers(trace.steps) + 1.0))
    return np.asarray(done[np.searchsorted(trace.steps.end_ms, at_ms, side="right")], dtype=np.float64)


def _stretch_edges(trace: Trace, warm: float, last: float) -> Floats:
    """Return the edges of the stretches: calls of ``fit`` if there are enough, else equal numbers of steps."""
    if last <= warm:
        return np.zeros(0)
    found = growth_unit(trace)
    if found.place is not None and MIN_LOOP_CALLS <= found.count <= MAX_LOOP_CALLS:
        return np.arange(last, warm, -found.steps)[::-1]
    return np.linspace(warm, last, MEMORY_STRETCHES + 1)


def _stretch_gains(x: Floats, y: Floats, edges: Floats) -> Floats:
    """Return steps and bytes between neighbouring sampled stretches, each by its approximate minimum."""
    middle = []
    for low, high in itertools.pairwise(edges):
        mine: Bools = (x >= low) & (x <= high) if high == edges[-1] else (x >= low) & (x < high)
        if mine.any():
            middle.append((float(x[mine].mean()), float(quantile(y[mine], BASE_QUANTILE))))
    rows = np.diff(np.array(middle).reshape(-1, 2), axis=0)
    return rows[rows[:, 0] > 0]


# -- units of growth


def growth_unit(trace: Trace) -> GrowthUnit:
    """Return a thousand steps, or a call of fit, predict or evaluate that one line repeats."""
    steps = trace.steps
    if steps.source.endswith("()"):
        return GrowthUnit(f"call of {steps.source[:-2]}", 1.0, steps.place, len(steps))
    groups: dict[tuple[str, Place], list[Event]] = {}
    for event in trace.events_of("loop"):
        if not event.data.get("nested") and event.place is not None:
            groups.setdefault((event.name, event.place), []).append(event)
    for (name, place), events in sorted(groups.items(), key=lambda g: -len(g[1])):
        inside = sum(int(np.diff(np.searchsorted(steps.start_ms, (e.start_ms, e.end_ms)))[0]) for e in events)
        if len(events) >= MIN_LOOP_CALLS and inside >= 0.5 * len(steps):
            return GrowthUnit(f"call of {name}", inside / len(events), place, len(events))
    return GrowthUnit("thousand steps", 1000.0)


def traces_per_step(trace: Trace) -> float:
    """Return traces of functions per step after warm-up; each keeps a graph as long as its function exists."""
    steps = trace.steps
    begun = float(steps.start_ms[int(WARM_UP_SHARE * len(steps))]) if len(steps) else 0.0
    late = sum(e.start_ms >= begun for e in trace.events_of("trace"))
    return late / max((1 - WARM_UP_SHARE) * len(steps), 1.0)


def pipeline_buffer_bytes(trace: Trace) -> float:
    """Return the largest content of the input pipeline's buffers and caches, which fill by design."""
    return sum(n.buffered_bytes for p in trace.pipelines for n in p.nodes if n.buffered_bytes < MIN_WRAPPED_BYTES)


def was_collected(trace: Trace) -> bool:
    """Return whether Python's garbage collector ran a full collection in the last half.

    A full collection frees reference cycles.
    """
    spans, steps = trace.lane("gc"), trace.steps
    if not len(spans) or not len(steps):
        return False
    late = spans.where(spans.start_ms >= steps.start_ms[len(steps) // 2])
    return any(trace.names[int(n)].text == "generation 2" for n in late.name)


def format_bytes(value: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= factor:
            return f"{format_number(value / factor)} {unit}"
    return f"{format_number(value)} B"
