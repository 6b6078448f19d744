"""What changes together with the step time: early and late steps by category, source line and machine sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from slowtrain.columns import intervals
from slowtrain.columns.arrays import Floats, Ints, distinct_values, median_value
from slowtrain.columns.spans import Spans, count_by_place
from slowtrain.model import CATEGORY_PHRASES, Category, Place
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals import growth_suspects, input_feed, memory_growth, stage_growth
from slowtrain.trace.signals.drift import machine_conditions
from slowtrain.trace.signals.drift.machine_conditions import (
    MIN_GROWTH_PART,
    EarlyAndLate,
    SlowdownReason,
    explains_growth,
)
from slowtrain.trace.signals.host import host_work
from slowtrain.trace.signals.step_trend import MIN_BEYOND_RATIO

# A call's inside is divided by shares of the whole run, so that its parts cannot grow independently.
CALL_CATEGORIES = (Category.DISPATCH, Category.HOST_OP, Category.DEVICE, Category.COLLECTIVE, Category.UNATTRIBUTED)
MIN_STALL_RATIO = 3.0  # times the median; a longer step is a stall and not part of the growth
MIN_CROWDED_RATIO = 4.0  # times the growth of the rest of the step, which also had to share the cores
MIN_LINE_SAMPLES = 20  # samples of the stack in both stretches; fewer do not distinguish lines
# The speed of a shared machine varies within seconds, independently of the script: of 150 recorded runs of at
# most 30 s, in eight only the time of everything grew. Only larger, lasting changes are reported.
MIN_LASTING_MS = 60_000.0
MIN_UNEXPLAINED_SHARE = 0.2
MIN_MORE_BYTES = 8e6  # bytes; smaller growth of memory is not reported with the step's growth
MIN_MORE_RATIO = 1.1  # times the earlier value; smaller growth besides the step's is not reported

# Categories that may explain a slowdown by themselves, in the order of the checks.
OWN_CATEGORIES = (
    *(Category.INPUT, Category.CONVERT, Category.FEED, Category.READBACK, Category.COMPILE),
    *(Category.PYTHON, Category.CALLBACK, Category.GC),
)
DEVICE_MEMORY_WORDS = (
    ("", "the memory in use on"),
    ("peak ", "the peak memory in use on"),
    ("free ", "the free memory in the pool of"),
)


def find_slowdown_reason(trace: Trace, early: Ints, late: Ints) -> SlowdownReason:
    """Return what explains the slowdown. ``early`` and ``late`` are indices of steps."""
    early, late = _without_stalls(trace, early), _without_stalls(trace, late)
    more = {c: float(v[late].mean() - v[early].mean()) for c, v in trace.categories.items()}
    sides = EarlyAndLate(
        trace, early, late, {c: v for c, v in more.items() if v > 0}, _sampled_line_ms(trace, early, late)
    )
    rest = SlowdownReason("", "", _growing_lines(sides.lines), sides.ms)
    return (
        _category_reason(sides)
        or _line_reason(sides)
        or _graph_reason(sides)
        or machine_conditions.machine_reason(sides)
        or _call_reason(sides)
        or rest
    )


def exceeds_machine_noise(found: SlowdownReason, lasted_ms: float, grown_share: float) -> bool:
    """Return whether a slowdown exceeds the machine's own variation.

    It does if something of the script grew, or if it lasted long.
    """
    if found.kind not in ("", "call", *machine_conditions.MACHINE_KINDS):
        return True
    if found.kind in ("", "call") and grown_share >= MIN_BEYOND_RATIO - 1:
        return True
    return lasted_ms >= MIN_LASTING_MS and grown_share >= MIN_UNEXPLAINED_SHARE


def _without_stalls(trace: Trace, index: Ints) -> Ints:
    """Return the steps without stalls."""
    ms = trace.steps.ms[index]
    return index[ms <= MIN_STALL_RATIO * float(median_value(ms))]


def _category_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    before, after = sides.step_ms
    for category in OWN_CATEGORIES:
        column = sides.trace.categories.get(category)
        if column is None:
            continue
        then, now = float(column[sides.early].mean()), float(column[sides.late].mean())
        if not explains_growth(then, now, before, after):
            continue
        says = (
            f"{CATEGORY_PHRASES[category]} took {format_number(then)} ms of a step at first and "
            f"{format_number(now)} ms at the end"
        )
        if category is Category.INPUT:
            return _input_reason(sides, says, now - then)
        if category is Category.COMPILE:
            says += _traces_text(sides.trace, sides.early, sides.late)
        return SlowdownReason(str(category), says, _lines_between_calls(sides), sides.ms)
    return None


def _input_reason(sides: EarlyAndLate, says: str, more_ms: float) -> SlowdownReason:
    """Explain a longer wait for input: by the script's own Python that makes it, by the machine, or unknown."""
    crowd = machine_conditions.crowding_reason(sides)
    producer = _growing_producer(sides, more_ms, alone=crowd is None)
    if producer is not None:
        return SlowdownReason(str(Category.INPUT), says + producer[0], producer[1], sides.ms)
    stage = _growing_stage(sides, more_ms, alone=crowd is None)
    if stage is not None:
        from_disk = machine_conditions.disk_read_text(sides, more_ms)
        return SlowdownReason(
            str(Category.INPUT), says + stage[0] + from_disk, stage[1], sides.ms, "disk" if from_disk else "stage"
        )
    if crowd is not None:
        return crowd  # batches are made by threads that have to share the cores
    from_disk = machine_conditions.disk_read_text(sides, more_ms)
    return SlowdownReason(str(Category.INPUT), says + from_disk, (), sides.ms, "disk" if from_disk else "")


def _growing_producer(sides: EarlyAndLate, more_ms: float, alone: bool) -> tuple[str, tuple[Place, ...]] | None:
    """Return a clause about the Python function that makes input and has its growth, and its costliest line.

    If processors also became scarce, that applies to the whole step: then the function must have grown far more.
    """
    spans, trace = sides.trace.lane("pyfunc"), sides.trace
    rows = []
    for number in distinct_values(spans.name):
        mine = spans.where(spans.name == number)
        rows.append((number, *(_ms_per_step(trace, mine, index) for index in (sides.early, sides.late))))
    number, then, now = max(rows, key=lambda row: row[2] - row[1], default=(0, 0.0, 0.0))
    if not (then > 0 and now - then >= MIN_GROWTH_PART * more_ms):
        return None
    if not alone and now / then - 1 < MIN_CROWDED_RATIO * _growth_of_rest(sides):
        return None
    detail = trace.names[int(number)].detail
    name = str(detail.get("qualname") or trace.names[int(number)].text)
    says = (
        f"; `{name}`, which makes the input, took {format_number(then)} ms a step at first and {format_number(now)} ms "
        "at the end"
    )
    return says, _producer_line(trace, name)


def _growth_of_rest(sides: EarlyAndLate) -> float:
    """Return the relative growth of the step without its wait for input; 0 if it got shorter."""
    waits, (before, after) = sides.trace.categories[Category.INPUT], sides.step_ms
    then, now = before - float(waits[sides.early].mean()), after - float(waits[sides.late].mean())
    return max(now / max(then, 1e-9) - 1, 0.0)


def _growing_stage(sides: EarlyAndLate, more_ms: float, alone: bool) -> tuple[str, tuple[Place, ...]] | None:
    """Return the tf.data stage whose work per batch grew far more than the others' and explains the wait."""
    found = stage_growth.most_grown_stage(sides.trace, sides.early, sides.late)
    if found is None:
        return None
    one, (all_then, all_now) = found
    then, now = one.ms
    width = min(max(one.node.parallelism or 1.0, 1.0), max(sides.trace.cores, 1.0))  # threads sharing its work
    if not (
        explains_growth(then, now, all_then, all_now) and (now - then) / width * one.a_step >= MIN_GROWTH_PART * more_ms
    ):
        return None
    if not alone and not now >= (1 + MIN_CROWDED_RATIO * _growth_of_rest(sides)) * then:
        return None
    where = input_feed.user_lines(one.node)
    name = one.node.written.op.removesuffix("Dataset") if one.node.written is not None else one.node.name
    line = f" of line {where[0].line}" if where else ""
    says = (
        f"; its tf.data stage {name}{line} took {format_number(then)} ms a batch at first and "
        f"{format_number(now)} ms at the end"
    )
    return says + _element_text(one), where


def _element_text(one: stage_growth.GrownStage) -> str:
    """Return whether each element takes longer, or a batch takes more elements."""
    (few, many), (quick, slow) = one.elements, one.us_per_element
    if not (few > 0 and quick > 0):
        return ""
    if slow / quick >= many / few:
        return f" ({format_number(quick)} µs an element at first, {format_number(slow)} µs at the end)"
    return f" ({format_number(few)} elements at first, {format_number(many)} at the end)"


def _ms_per_step(trace: Trace, spans: Spans, index: Ints) -> float:
    """Return the mean time that spans cover in these steps; nested spans count once."""
    return float(intervals.covered_length(spans.times, trace.steps.start_ms[index], trace.steps.end_ms[index]).mean())


def _producer_line(trace: Trace, name: str) -> tuple[Place, ...]:
    """Return the costliest traced line of a function that makes input, else its first line."""
    one = next((p for p in trace.producers if p.qualname == name), None)
    if one is None:
        return ()
    hot = tuple(line.place for line in one.lines[:1])
    return hot or ((one.place,) if one.place is not None else ())


def _lines_between_calls(sides: EarlyAndLate) -> tuple[Place, ...]:
    """Return growing lines other than those that train or request a batch, then the costliest traced line.

    Samples occur when the interpreter's lock is released, so that few lines of short work between calls are sampled.
    """
    calls = {host_work.step_line(sides.trace), *host_work.ms_by_line(sides.trace, "next")}
    sampled = _growing_lines(tuple(one for one in sides.lines if one[0] not in calls))
    timed = [line.place for line in sides.trace.loop_lines if line.place not in calls]
    return tuple(dict.fromkeys((*sampled, *timed[:1])))


def _traces_text(trace: Trace, early: Ints, late: Ints) -> str:
    at = np.sort(np.array([e.start_ms for e in trace.events_of("trace")]))
    steps = [(trace.steps.start_ms[index], trace.steps.end_ms[index]) for index in (early, late)]
    count = [int((intervals.containing_range(*ranges, at) >= 0).sum()) for ranges in steps]
    if not max(count):
        return ""
    return f" ({count[0]} traces in {len(early)} steps at first, {count[1]} in {len(late)} at the end)"


def _sampled_line_ms(trace: Trace, early: Ints, late: Ints) -> tuple[tuple[Place, float, float], ...]:
    """Return each line at which the training thread was sampled, with ms per step early and late; most growth first."""
    samples = trace.lane("stack")
    found: dict[Place, list[float]] = {}
    for side, index in enumerate((early, late)):
        start, end = trace.steps.start_ms[index], trace.steps.end_ms[index]
        inside = samples.where(intervals.containing_range(start, end, samples.start_ms) >= 0)
        if len(inside) < MIN_LINE_SAMPLES / 2:
            return ()
        # Samples are taken at fixed times, so that each stands for an equal part of these steps.
        each = float((end - start).sum()) / len(inside) / len(index)
        for place, count in count_by_place(trace.names, inside).items():
            found.setdefault(place, [0.0, 0.0])[side] += each * count
    return tuple(sorted(((p, a, b) for p, (a, b) in found.items()), key=lambda row: row[1] - row[2]))


def _growing_lines(lines: tuple[tuple[Place, float, float], ...]) -> tuple[Place, ...]:
    """Return the lines with most of the growth of all growing lines."""
    grown = [(p, b - a) for p, a, b in lines if b > a]
    whole = sum(g for _, g in grown)
    return tuple(p for p, g in grown if g >= 0.25 * whole)[:2]


def _line_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    before, after = sides.step_ms
    for place, then, now in sides.lines[:3]:
        # A line that is the whole step grows with anything, so that the rest of the step must not be negligible.
        if now < 0.9 * after and explains_growth(then, now, before, after):
            name = place.file.rpartition("/")[2]
            says = (
                f"line {place.line} of {name} took {format_number(then)} ms of a step at first and "
                f"{format_number(now)} ms at the end"
            )
            return SlowdownReason("line", says, (place,), sides.ms)
    return None


def _call_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Explain by the step's own function, if nothing else has the growth: its data grows."""
    columns = [sides.trace.categories[c] for c in CALL_CATEGORIES if c in sides.trace.categories]
    then, now = (sum(float(column[index].mean()) for column in columns) for index in (sides.early, sides.late))
    before, after = sides.step_ms
    if now - then < MIN_GROWTH_PART * (after - before):
        return None
    says = (
        f"the calls of the training functions took {format_number(then)} ms of a step at first and "
        f"{format_number(now)} ms at the end"
    )
    return SlowdownReason("call", says, _growing_lines(sides.lines), sides.ms)


def _graph_reason(sides: EarlyAndLate) -> SlowdownReason | None:
    """Explain by a session's graph, which each run executes completely; the machine cannot make it longer."""
    graphs = growth_suspects.growing_graphs(sides.trace)
    call = _call_reason(sides) if graphs else None
    return replace(call, kind="graph", where=graphs[0].sites) if call is not None else None


def growth_text(trace: Trace, early: Ints, late: Ints) -> str:
    """Return clauses about what else grew by more than a tenth.

    Covers memory of host and devices, allocators, a graph, and arrays.
    """
    series: list[tuple[str, tuple[Floats, Floats], Callable[[float, float], str]]] = [
        ("the process's memory", _sampled_figure(trace, "rss_bytes"), _megabytes_text),
        ("the free memory that malloc keeps", _sampled_figure(trace, "heap_free_bytes"), _megabytes_text),
    ]
    for what, words in DEVICE_MEMORY_WORDS:
        series += [
            (f"{words} {name}", column, _megabytes_text)
            for name, column in memory_growth.device_memory(trace, what).items()
        ]
    series.append(("the graph", growth_suspects.graph_op_counts(trace), "{:,.0f} to {:,.0f} ops".format))
    sides = EarlyAndLate(trace, early, late, {}, ())
    found = [(what, *sides.means(values, at), say) for what, (at, values), say in series]
    arrays = growth_suspects.growing_arrays(trace)
    found += [(f"`{one.path}`", float(one.length - one.grown), float(one.length), _sizes_text) for one in arrays]
    grown = [
        (what, say(then, now))
        for what, then, now, say in found
        # A few megabytes of memory come and go.
        if now > MIN_MORE_RATIO * then and not (say is _megabytes_text and now - then < MIN_MORE_BYTES)
    ]
    return "".join(f"; {what} grew from {range_text}" for what, range_text in grown)


def _sampled_figure(trace: Trace, key: str) -> tuple[Floats, Floats]:
    """Return times and values of a machine figure; empty if it was not read."""
    none = np.zeros(0)
    return trace.samples.get("time_ms", none) if key in trace.samples else none, trace.samples.get(key, none)


def _sizes_text(then: float, now: float) -> str:
    return f"{memory_growth.format_bytes(then)} to {memory_growth.format_bytes(now)}"


def _megabytes_text(then: float, now: float) -> str:
    return f"{then / 1e6:.0f} to {now / 1e6:.0f} MB"
