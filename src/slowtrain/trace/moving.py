"""What changes together with the step time: early and late steps by category, source line and machine sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from slowtrain.figures import plain
from slowtrain.model import SAID, Category, Place
from slowtrain.trace import (
    Floats,
    Ints,
    Spans,
    Trace,
    conditions,
    course,
    feeding,
    growth,
    held,
    intervals,
    loop,
    place_of,
)
from slowtrain.trace.ordered import halfway, unique
from slowtrain.trace.sides import MOST_OF_IT, Moved, Sides, explains, mean, within_ms
from slowtrain.trace.trend import BEYOND

# A call's inside is divided by shares of the whole run, so that its parts cannot grow independently.
CALL = (Category.DISPATCH, Category.HOST_OP, Category.DEVICE, Category.COLLECTIVE, Category.UNATTRIBUTED)
USUAL = 3.0  # times the median; a longer step is a stall and not part of the growth
BY_FAR = 4.0  # times the growth of the rest of the step, which also had to share the cores
LEAST_SAMPLES = 20  # samples of the stack in both stretches; fewer do not distinguish lines
# The speed of a shared machine varies within seconds, independently of the script: of 150 recorded runs of at
# most 30 s, in eight only the time of everything grew. Only larger, lasting changes are reported.
MOODS_MS = 60_000.0
UNEXPLAINED = 0.2
LEAST_MORE = 8e6  # bytes; smaller growth of memory is not reported with the step's growth
MORE = 1.1  # times the earlier value; smaller growth besides the step's is not reported

# Categories that may explain a slowdown by themselves, in the order of the checks.
ALONE = (
    *(Category.INPUT, Category.CONVERT, Category.FEED, Category.READBACK, Category.COMPILE),
    *(Category.PYTHON, Category.CALLBACK, Category.GC),
)


def moved(trace: Trace, early: Ints, late: Ints) -> Moved:
    """Return what explains the slowdown. ``early`` and ``late`` are indices of steps."""
    early, late = _usual(trace, early), _usual(trace, late)
    more = {c: float(v[late].mean() - v[early].mean()) for c, v in trace.categories.items()}
    sides = Sides(trace, early, late, {c: v for c, v in more.items() if v > 0}, _lines(trace, early, late))
    rest = Moved("", "", _growing(sides.lines), sides.ms)
    return _category(sides) or _line(sides) or _graph(sides) or conditions.moved(sides) or _call(sides) or rest


def tells(found: Moved, lasted_ms: float, grown_share: float) -> bool:
    """Return whether a slowdown exceeds the machine's own variation.

    It does if something of the script grew, or if it lasted long.
    """
    if found.kind not in ("", "call", *conditions.MOODS):
        return True
    if found.kind in ("", "call") and grown_share >= BEYOND - 1:
        return True
    return lasted_ms >= MOODS_MS and grown_share >= UNEXPLAINED


def _usual(trace: Trace, index: Ints) -> Ints:
    """Return the steps without stalls."""
    ms = trace.steps.ms[index]
    return index[ms <= USUAL * float(halfway(ms))]


def _category(sides: Sides) -> Moved | None:
    before, after = sides.step_ms
    for category in ALONE:
        column = sides.trace.categories.get(category)
        if column is None:
            continue
        then, now = float(column[sides.early].mean()), float(column[sides.late].mean())
        if not explains(then, now, before, after):
            continue
        says = f"{SAID[category]} took {plain(then)} ms of a step at first and {plain(now)} ms at the end"
        if category is Category.INPUT:
            return _input(sides, says, now - then)
        if category is Category.COMPILE:
            says += _traced(sides.trace, sides.early, sides.late)
        return Moved(str(category), says, _between(sides), sides.ms)
    return None


def _input(sides: Sides, says: str, more_ms: float) -> Moved:
    """Explain a longer wait for input: by the script's own Python that makes it, by the machine, or unknown."""
    crowd = conditions.crowded(sides)
    made = _maker(sides, more_ms, alone=crowd is None)
    if made is not None:
        return Moved(str(Category.INPUT), says + made[0], made[1], sides.ms)
    stage = _stage(sides, more_ms, alone=crowd is None)
    if stage is not None:
        from_disk = conditions.read(sides, more_ms)
        return Moved(
            str(Category.INPUT), says + stage[0] + from_disk, stage[1], sides.ms, "disk" if from_disk else "stage"
        )
    if crowd is not None:
        return crowd  # batches are made by threads that have to share the cores
    from_disk = conditions.read(sides, more_ms)
    return Moved(str(Category.INPUT), says + from_disk, (), sides.ms, "disk" if from_disk else "")


def _maker(sides: Sides, more_ms: float, alone: bool) -> tuple[str, tuple[Place, ...]] | None:
    """Return a clause about the Python function that makes input and has its growth, and its costliest line.

    If processors also became scarce, that applies to the whole step: then the function must have grown far more.
    """
    spans, trace = sides.trace.lane("pyfunc"), sides.trace
    told = []
    for number in unique(spans.name):
        mine = spans.where(spans.name == number)
        told.append((number, *(_ms_a_step(trace, mine, index) for index in (sides.early, sides.late))))
    number, then, now = max(told, key=lambda row: row[2] - row[1], default=(0, 0.0, 0.0))
    if not (then > 0 and now - then >= MOST_OF_IT * more_ms):
        return None
    if not alone and now / then - 1 < BY_FAR * _rest(sides):
        return None
    detail = trace.names[int(number)].detail
    name = str(detail.get("qualname") or trace.names[int(number)].text)
    says = f"; `{name}`, which makes it, took {plain(then)} ms a step at first and {plain(now)} ms at the end"
    return says, _made_at(trace, name)


def _rest(sides: Sides) -> float:
    """Return the relative growth of the step without its wait for input; 0 if it got shorter."""
    waits, (before, after) = sides.trace.categories[Category.INPUT], sides.step_ms
    then, now = before - float(waits[sides.early].mean()), after - float(waits[sides.late].mean())
    return max(now / max(then, 1e-9) - 1, 0.0)


def _stage(sides: Sides, more_ms: float, alone: bool) -> tuple[str, tuple[Place, ...]] | None:
    """Return the tf.data stage whose work per batch grew far more than the others' and explains the wait."""
    found = course.most_grown(sides.trace, sides.early, sides.late)
    if found is None:
        return None
    one, (all_then, all_now) = found
    then, now = one.ms
    width = min(max(one.node.parallelism or 1.0, 1.0), max(sides.trace.cores, 1.0))  # threads sharing its work
    if not (explains(then, now, all_then, all_now) and (now - then) / width * one.a_step >= MOST_OF_IT * more_ms):
        return None
    if not alone and not now >= (1 + BY_FAR * _rest(sides)) * then:
        return None
    where = feeding.written_place(one.node)
    name = one.node.written.op.removesuffix("Dataset") if one.node.written is not None else one.node.name
    line = f" of line {where[0].line}" if where else ""
    says = f"; its tf.data stage {name}{line} took {plain(then)} ms for a batch at first and {plain(now)} ms at the end"
    return says + _each_element(one), where


def _each_element(one: course.Grown) -> str:
    """Return whether each element takes longer, or a batch takes more elements."""
    (few, many), (quick, slow) = one.elements, one.us_per_element
    if not (few > 0 and quick > 0):
        return ""
    if slow / quick >= many / few:
        return f" ({plain(quick)} µs for an element, then {plain(slow)} µs)"
    return f" ({plain(few)} elements, then {plain(many)})"


def _ms_a_step(trace: Trace, spans: Spans, index: Ints) -> float:
    """Return the mean time that spans cover in these steps; nested spans count once."""
    whole = intervals.union(spans.start_ms, spans.end_ms)
    return float(intervals.covered(whole, trace.steps.start_ms[index], trace.steps.end_ms[index]).mean())


def _made_at(trace: Trace, name: str) -> tuple[Place, ...]:
    """Return the costliest traced line of a function that makes input, else its first line."""
    one = next((p for p in trace.producers if p.qualname == name), None)
    if one is None:
        return ()
    hot = tuple(line.place for line in one.lines[:1])
    return hot or ((one.place,) if one.place is not None else ())


def _between(sides: Sides) -> tuple[Place, ...]:
    """Return growing lines other than those that train or request a batch, then the costliest traced line.

    Samples occur when the interpreter's lock is released, so that few lines of short work between calls are sampled.
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
    """Return the moments that lie in these steps."""
    start, end = trace.steps.start_ms[index], trace.steps.end_ms[index]
    i = np.searchsorted(start, at, side="right") - 1
    return np.asarray(at[(i >= 0) & (at < end[np.maximum(i, 0)])])


def _lines(trace: Trace, early: Ints, late: Ints) -> tuple[tuple[Place, float, float], ...]:
    """Return each line at which the training thread was sampled, with ms per step early and late; most growth first."""
    samples = trace.lane("stack")
    found: dict[Place, list[float]] = {}
    for side, index in enumerate((early, late)):
        start, end = trace.steps.start_ms[index], trace.steps.end_ms[index]
        i = np.searchsorted(start, samples.start_ms, side="right") - 1
        inside = samples.where((i >= 0) & (samples.start_ms < end[np.maximum(i, 0)]))
        if len(inside) < LEAST_SAMPLES / 2:
            return ()
        # Samples are taken at fixed times, so that each stands for an equal part of these steps.
        each = float((end - start).sum()) / len(inside) / len(index)
        for number, count in zip(*np.unique(inside.name, return_counts=True), strict=True):
            place = place_of(trace.names[int(number)].detail.get("site"))
            if place is not None:
                found.setdefault(place, [0.0, 0.0])[side] += each * float(count)
    return tuple(sorted(((p, a, b) for p, (a, b) in found.items()), key=lambda row: row[1] - row[2]))


def _growing(lines: tuple[tuple[Place, float, float], ...]) -> tuple[Place, ...]:
    """Return the lines with most of the growth of all growing lines."""
    grown = [(p, b - a) for p, a, b in lines if b > a]
    whole = sum(g for _, g in grown)
    return tuple(p for p, g in grown if g >= 0.25 * whole)[:2]


def _line(sides: Sides) -> Moved | None:
    before, after = sides.step_ms
    for place, then, now in sides.lines[:3]:
        # A line that is the whole step grows with anything, so that the rest of the step must not be negligible.
        if now < 0.9 * after and explains(then, now, before, after):
            name = place.file.rpartition("/")[2]
            says = (
                f"line {place.line} of {name} took {plain(then)} ms of a step at first and {plain(now)} ms at the end"
            )
            return Moved("line", says, (place,), sides.ms)
    return None


def _call(sides: Sides) -> Moved | None:
    """Explain by the step's own function, if nothing else has the growth: its data grows."""
    columns = [sides.trace.categories[c] for c in CALL if c in sides.trace.categories]
    then, now = (sum(float(column[index].mean()) for column in columns) for index in (sides.early, sides.late))
    before, after = sides.step_ms
    if now - then < MOST_OF_IT * (after - before):
        return None
    says = f"the calls that compute took {plain(then)} ms of a step at first and {plain(now)} ms at the end"
    return Moved("call", says, _growing(sides.lines), sides.ms)


def _graph(sides: Sides) -> Moved | None:
    """Explain by a session's graph, which each run executes completely; the machine cannot make it longer."""
    graphs = held.graphs(sides.trace)
    call = _call(sides) if graphs else None
    return replace(call, kind="graph", where=graphs[0].sites) if call is not None else None


ON_DEVICES = (("", "what is in use on"), ("peak ", "the most in use on"), ("free ", "what is free in the pool of"))


def grown(trace: Trace, early: Ints, late: Ints) -> str:
    """Return clauses about what else grew by more than a tenth.

    Covers memory of host and devices, allocators, a graph, and arrays.
    """
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
    """Return whether the growth is only a few megabytes of memory, which come and go."""
    return say is _megabytes and now - then < LEAST_MORE


def _both(trace: Trace, told: tuple[Floats, Floats], early: Ints, late: Ints) -> tuple[float, float]:
    at, values = told
    then, now = (mean(values, within_ms(trace, at, index)) for index in (early, late))
    return then, now


def _sampled(trace: Trace, key: str) -> tuple[Floats, Floats]:
    """Return times and values of a machine figure; empty if it was not read."""
    none = np.zeros(0)
    return trace.samples.get("time_ms", none) if key in trace.samples else none, trace.samples.get(key, none)


def _sizes(then: float, now: float) -> str:
    return f"{growth.size(then)} to {growth.size(now)}"


def _megabytes(then: float, now: float) -> str:
    return f"{then / 1e6:.0f} to {now / 1e6:.0f} MB"
