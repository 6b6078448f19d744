"""What moves with a step time: early steps held against late ones, by category, by source line, by machine sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slowtrain.figures import plain
from slowtrain.model import Category, Place
from slowtrain.trace import Floats, Ints, Trace, growth, held, loop, place_of
from slowtrain.trace.stalled import others
from slowtrain.trace.trend import BEYOND, numbers

# Of the growth is what one category or line must have to explain it, and it must have grown twice as much as the rest:
# where all of a step got slower alike, it was the machine.
MOST_OF_IT, MORE_THAN_REST = 0.5, 2.0
# What a call does inside is divided by one share for the whole run: its parts cannot grow apart from each other.
CALL = (Category.DISPATCH, Category.DEVICE, Category.COLLECTIVE, Category.UNATTRIBUTED)
USUAL = 3.0  # times the median: a longer step is a stall, and no part of what grows
LEAST_SAMPLES = 20  # of the stack in both stretches: fewer do not tell lines apart
CROWDED = 0.2  # processors that others take more than before
DISK = 0.1  # of all cores' time, more than before
# Speed of a machine that is shared comes and goes within seconds, whatever the script does: of 150 recorded runs of at
# most 30 s, in eight nothing grew but the time of everything. Only what lasts, and is more, is worth a word.
MOODS_MS = 60_000.0
UNEXPLAINED = 0.2
SLOWER_CLOCK = 0.95  # of what it was before
IN_PIECES = 0.2  # of malloc's heap, more than before
LEAST_FREE = 64e6  # bytes of it
LEAST_MORE = 8e6  # bytes of memory, to be named beside the step's growth
SLOWEST_DISK = 1e6  # bytes a second, of small files far apart: reads of fewer do not explain a wait
MORE = 1.1  # times what it was before: what grew beside the step

SAID: Mapping[Category, str] = {
    Category.INPUT: "waiting for input",
    Category.FEED: "turning host data into tensors",
    Category.READBACK: "reading values back",
    Category.COMPILE: "tracing and compiling",
    Category.PYTHON: "Python of the script",
    Category.CALLBACK: "callbacks",
    Category.GC: "garbage collection",
}


@dataclass(frozen=True)
class Moved:
    """What explains that late steps are slower than early ones.

    ``ms`` a step by category is what late steps take more. ``kind`` is a category, ``line``, ``others``, ``clock``,
    ``processor``, ``disk``, ``allocator``, ``graph``, ``call`` or empty: then nothing that was measured explains it.
    ``says`` is a clause with its numbers. ``by`` is what makes that category grow, where the machine's figures tell:
    ``disk``, or empty.
    """

    kind: str
    says: str
    where: tuple[Place, ...]
    ms: Mapping[Category, float]
    by: str = ""


@dataclass(frozen=True)
class _Sides:
    """Early and late steps, as indices; what late ones take more by category; the lines met in both, in ms a step."""

    trace: Trace
    early: Ints
    late: Ints
    ms: Mapping[Category, float]
    lines: tuple[tuple[Place, float, float], ...]

    @property
    def step_ms(self) -> tuple[float, float]:
        return tuple(float(self.trace.steps.ms[i].mean()) for i in (self.early, self.late))  # type: ignore[return-value]

    def means(self, column: Floats) -> tuple[float, float]:
        """Of a column of the machine's samples in both stretches."""
        then, now = (_mean(column, _stretch(self.trace, i)) for i in (self.early, self.late))
        return then, now


def moved(trace: Trace, early: Ints, late: Ints) -> Moved:
    """``early`` and ``late`` are indices of steps."""
    early, late = _usual(trace, early), _usual(trace, late)
    more = {c: float(v[late].mean() - v[early].mean()) for c, v in trace.categories.items()}
    sides = _Sides(trace, early, late, {c: v for c, v in more.items() if v > 0}, _lines(trace, early, late))
    rest = Moved("", "", _growing(sides.lines), sides.ms)
    return _category(sides) or _line(sides) or _graph(sides) or _machine(sides) or _call(sides) or rest


def tells(found: Moved, lasted_ms: float, grown_share: float) -> bool:
    """Whether a slowing is more than the machine's moods: something of the script's grew, or it went on for long."""
    if found.kind not in ("", "call", "others", "processor", "disk", "allocator"):
        return True
    if found.kind in ("", "call") and grown_share >= BEYOND - 1:
        return True
    return lasted_ms >= MOODS_MS and grown_share >= UNEXPLAINED


def _usual(trace: Trace, index: Ints) -> Ints:
    """Without stalls."""
    ms = trace.steps.ms[index]
    return index[ms <= USUAL * float(np.median(ms))]


def _explains(before: float, after: float, all_before: float, all_after: float) -> bool:
    """Whether one part has most of the growth, and grew more than the rest of the step by far."""
    grown, whole = after - before, all_after - all_before
    rest = (all_after - after) / max(all_before - before, 1e-9) - 1
    own = after / before - 1 if before > 0 else np.inf
    return whole > 0 and grown >= MOST_OF_IT * whole and own >= MORE_THAN_REST * max(rest, 0.0)


def _category(sides: _Sides) -> Moved | None:
    before, after = sides.step_ms
    for category, said in SAID.items():
        column = sides.trace.categories.get(category)
        if column is None:
            continue
        then, now = float(column[sides.early].mean()), float(column[sides.late].mean())
        if not _explains(then, now, before, after):
            continue
        if category is Category.INPUT and (crowd := _others(sides)) is not None:
            return crowd  # batches are made by threads that had to share the cores
        says = f"{said} took {plain(then)} ms of a step at first and {plain(now)} ms at the end"
        if category is Category.INPUT and (read := _read(sides, now - then)):
            return Moved(str(category), says + read, (), sides.ms, "disk")
        if category is Category.COMPILE:
            says += _traced(sides.trace, sides.early, sides.late)
        return Moved(str(category), says, () if category is Category.INPUT else _between(sides), sides.ms)
    return None


def _between(sides: _Sides) -> tuple[Place, ...]:
    """Lines that grew, without those that train or ask for a batch; then the costliest of those that were traced.

    Samples come where the interpreter lets go of its lock: of short work between two calls few lines are met.
    """
    calls = {loop.step_line(sides.trace), *loop.places(sides.trace, "next")}
    sampled = _growing(tuple(one for one in sides.lines if one[0] not in calls))
    timed = [line.place for line in sides.trace.loop_lines if line.place not in calls]
    return tuple(dict.fromkeys((*sampled, *timed[:1])))


def _traced(trace: Trace, early: Ints, late: Ints) -> str:
    at = np.sort(np.array([e.start_ms for e in trace.events_of("trace")]))
    count = [len(_within(trace, at, index)) for index in (early, late)]
    return f" ({count[0]} traces in {len(early)} steps, then {count[1]} in {len(late)})" if max(count) else ""


def _within(trace: Trace, at: Floats, index: Ints) -> Floats:
    """Those of the moments that lie in these steps."""
    start, end = trace.steps.start_ms[index], trace.steps.end_ms[index]
    i = np.searchsorted(start, at, side="right") - 1
    return np.asarray(at[(i >= 0) & (at < end[np.maximum(i, 0)])])


def _lines(trace: Trace, early: Ints, late: Ints) -> tuple[tuple[Place, float, float], ...]:
    """Each line at which the training thread was sampled, with its ms a step early and late; most growth first."""
    samples = trace.lane("stack")
    found: dict[Place, list[float]] = {}
    for side, index in enumerate((early, late)):
        start, end = trace.steps.start_ms[index], trace.steps.end_ms[index]
        i = np.searchsorted(start, samples.start_ms, side="right") - 1
        inside = samples.where((i >= 0) & (samples.start_ms < end[np.maximum(i, 0)]))
        if len(inside) < LEAST_SAMPLES / 2:
            return ()
        # Samples come at fixed times, whatever runs: each stands for an equal part of these steps.
        each = float((end - start).sum()) / len(inside) / len(index)
        for number, count in zip(*np.unique(inside.name, return_counts=True), strict=True):
            place = place_of(trace.names[int(number)].detail.get("site"))
            if place is not None:
                found.setdefault(place, [0.0, 0.0])[side] += each * float(count)
    return tuple(sorted(((p, a, b) for p, (a, b) in found.items()), key=lambda row: row[1] - row[2]))


def _growing(lines: tuple[tuple[Place, float, float], ...]) -> tuple[Place, ...]:
    """The lines that have most of what all growing lines grew by."""
    grown = [(p, b - a) for p, a, b in lines if b > a]
    whole = sum(g for _, g in grown)
    return tuple(p for p, g in grown if g >= 0.25 * whole)[:2]


def _line(sides: _Sides) -> Moved | None:
    before, after = sides.step_ms
    for place, then, now in sides.lines[:3]:
        # A line that is all of the step grows with anything; the rest of the step has to stand beside it.
        if now < 0.9 * after and _explains(then, now, before, after):
            name = place.file.rpartition("/")[2]
            says = (
                f"line {place.line} of {name} took {plain(then)} ms of a step at first and {plain(now)} ms at the end"
            )
            return Moved("line", says, (place,), sides.ms)
    return None


def _machine(sides: _Sides) -> Moved | None:
    """The machine's own figures, where one of them moved."""
    return _others(sides) or _gpu(sides) or _processor(sides) or _disk(sides) or _allocator(sides)


def _gpu(sides: _Sides) -> Moved | None:
    for key, column in sides.trace.samples.items():
        if key.startswith("gpu_sm_mhz"):
            then, now = sides.means(column)
            if 0 < now < SLOWER_CLOCK * then:
                says = f"the GPU's clock fell from {then:.0f} to {now:.0f} MHz"
                warm = sides.trace.samples.get(key.replace("sm_mhz", "celsius"))
                if warm is not None:
                    says += ", its temperature went from {:.0f} to {:.0f} °C".format(*sides.means(warm))
                return Moved("clock", says, (), sides.ms)
    return None


def _processor(sides: _Sides) -> Moved | None:
    """The clock of the main thread's core, where its fall is most of what steps got slower by."""
    column = sides.trace.samples.get("cpu_mhz")
    if column is None:
        return None
    then, now = sides.means(column)
    before, after = sides.step_ms
    if not 0 < now < SLOWER_CLOCK * then or then / now - 1 < MOST_OF_IT * (after / before - 1):
        return None
    return Moved("processor", f"the processor's clock fell from {then:.0f} to {now:.0f} MHz", (), sides.ms)


def _disk(sides: _Sides) -> Moved | None:
    waits = sides.trace.samples.get("iowait_share")
    if waits is None:
        return None
    then, now = sides.means(waits)
    if not now - then >= DISK:
        return None
    says = f"the cores waited for a disk {then:.0%} of the time at first and {now:.0%} at the end"
    return Moved("disk", says, (), sides.ms)


def _allocator(sides: _Sides) -> Moved | None:
    """Of malloc's heap more lay free between what was in use, so that it looks longer for a place."""
    columns = [sides.trace.samples.get(f"heap_{what}_bytes") for what in ("free", "used")]
    if columns[0] is None or columns[1] is None:
        return None
    free, used = sides.means(columns[0]), sides.means(columns[1])
    then, now = (f / (f + u) if f + u > 0 else float("nan") for f, u in zip(free, used, strict=True))
    if not (now - then >= IN_PIECES and free[1] >= LEAST_FREE):
        return None
    says = f"of malloc's heap {then:.0%} lay free in pieces at first and {now:.0%} at the end ({growth.size(free[1])})"
    return Moved("allocator", says, (), sides.ms)


def _read(sides: _Sides, more_ms: float) -> str:
    """That what waits more is read from a disk, and came out of the page cache before; empty where it is not."""
    counted = sides.trace.samples.get("read_bytes")
    if counted is None:
        return ""
    number = numbers(sides.trace.steps)
    each: list[float] = []
    for index in (sides.early, sides.late):
        rows = counted[_stretch(sides.trace, index)]
        rows = rows[np.isfinite(rows)]
        steps = float(number[index[-1]] - number[index[0]]) + 1
        each.append(float(rows[-1] - rows[0]) / steps if len(rows) > 1 else float("nan"))
    then, now = each
    if not now > MORE_THAN_REST * then or now - then < SLOWEST_DISK * more_ms / 1e3:
        return ""
    return f"; a step read {growth.size(then)} from a disk at first and {growth.size(now)} at the end"


def _call(sides: _Sides) -> Moved | None:
    """The step's own function, where nothing beside it has the growth: what it works on grows."""
    columns = [sides.trace.categories[c] for c in CALL if c in sides.trace.categories]
    then, now = (sum(float(column[index].mean()) for column in columns) for index in (sides.early, sides.late))
    before, after = sides.step_ms
    if now - then < MOST_OF_IT * (after - before):
        return None
    says = f"the calls that compute took {plain(then)} ms of a step at first and {plain(now)} ms at the end"
    return Moved("call", says, _growing(sides.lines), sides.ms)


def _graph(sides: _Sides) -> Moved | None:
    """The graph of a session, which each run goes through as a whole: no machine's mood makes it longer."""
    graphs = held.graphs(sides.trace)
    call = _call(sides) if graphs else None
    return replace(call, kind="graph", where=graphs[0].sites) if call is not None else None


def _others(sides: _Sides) -> Moved | None:
    rest = others(sides.trace)
    if rest is None:
        return None
    then, now = sides.means(rest)
    if not now - then >= CROWDED:
        return None
    says = f"other processes took {plain(then, 2)} processors at first and {plain(now, 2)} at the end"
    return Moved("others", says, (), sides.ms)


def _stretch(trace: Trace, index: Ints) -> Ints:
    """Samples taken from the first of these steps to the last."""
    return _within_ms(trace, trace.samples["time_ms"], index)


def _within_ms(trace: Trace, at: Floats, index: Ints) -> Ints:
    low, high = float(trace.steps.start_ms[index[0]]), float(trace.steps.end_ms[index[-1]])
    return np.flatnonzero((at >= low) & (at <= high))


def _mean(column: Floats, side: Ints) -> float:
    told = column[side][np.isfinite(column[side])]
    return float(told.mean()) if len(told) else float("nan")


ON_DEVICES = (("", "what is in use on"), ("peak ", "the most in use on"), ("free ", "what is free in the pool of"))


def grown(trace: Trace, early: Ints, late: Ints) -> str:
    """What else grew meanwhile by more than a tenth: memory, on devices too, what allocators hold, a graph, arrays."""
    series: list[tuple[str, tuple[Floats, Floats], Callable[[float, float], str]]] = [
        ("the process's memory", _sampled(trace, "rss_bytes"), _megabytes),
        ("what malloc holds free", _sampled(trace, "heap_free_bytes"), _megabytes),
    ]
    for what, words in ON_DEVICES:
        series += [(f"{words} {name}", told, _megabytes) for name, told in growth.devices(trace, what).items()]
    series.append(("the graph", held.graph(trace), "{:,.0f} to {:,.0f} ops".format))
    found = [(what, *_both(trace, told, early, late), say) for what, told, say in series]
    arrays = held.arrays(trace)
    found += [(f"`{one.path}`", float(one.length - one.grown), float(one.length), _sizes) for one in arrays]
    kept = [
        (what, say(then, now)) for what, then, now, say in found if now > MORE * then and not _little(say, then, now)
    ]
    return "".join(f"; {what} grew from {said}" for what, said in kept)


def _little(say: Callable[[float, float], str], then: float, now: float) -> bool:
    """Of memory a few megabytes come and go."""
    return say is _megabytes and now - then < LEAST_MORE


def _both(trace: Trace, told: tuple[Floats, Floats], early: Ints, late: Ints) -> tuple[float, float]:
    at, values = told
    then, now = (_mean(values, _within_ms(trace, at, index)) for index in (early, late))
    return then, now


def _sampled(trace: Trace, key: str) -> tuple[Floats, Floats]:
    """Times and values of a figure of the machine; none where it was not read."""
    none = np.zeros(0)
    return trace.samples.get("time_ms", none) if key in trace.samples else none, trace.samples.get(key, none)


def _sizes(then: float, now: float) -> str:
    return f"{growth.size(then)} to {growth.size(now)}"


def _megabytes(then: float, now: float) -> str:
    return f"{then / 1e6:.0f} to {now / 1e6:.0f} MB"
