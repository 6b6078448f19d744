"""The script's own Python in a step, by line, if it makes no input and no other cause owns it."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from slowtrain.columns.device import Line
from slowtrain.model import Category, Place
from slowtrain.script.locations.recorded_sources import (
    divide_loop_lines,
    handmade_input,
    handmade_input_places,
    input_follows_model,
)
from slowtrain.trace import Trace
from slowtrain.trace.signals.drift import step_growth
from slowtrain.trace.signals.host import host_work, source_lines

KERAS_STEP_SOURCES = frozenset({"fit", "evaluate", "predict"})  # the Python between these steps is Keras's own
# Lanes whose spans begin at a line that calls the framework, of which the line tracer cannot tell Python's part.
CALL_LANES = tuple("function on_batch gradient next iterator readback feed loop build trace callback".split())
MIN_SAMPLES = 5  # samples of the main thread in steps; fewer say nothing about lines


class OwnPython(Struct, frozen=True):
    """``ms`` per step; each of ``lines`` has its ms per step and its share of ``ms``. Costliest first.

    ``traced``: the visits of lines were counted. Else the lines come from samples, without counts.
    """

    ms: float
    lines: tuple[Line, ...]
    traced: bool


def own_python(trace: Trace) -> OwnPython | None:
    """None if there is no such Python, or if it cannot be measured: Keras's loop, eager steps, a profile.

    Lines that print are left out.
    """
    return trace.compute_once(_find_own_python)


def printing_python(trace: Trace) -> OwnPython | None:
    """The same of lines that only print, log or write text."""
    return trace.compute_once(_printing_python)


def _find_own_python(trace: Trace) -> OwnPython | None:
    return _python_of(trace, printing=False)


def _printing_python(trace: Trace) -> OwnPython | None:
    return _python_of(trace, printing=True)


def _python_of(trace: Trace, *, printing: bool) -> OwnPython | None:
    if trace.fact("profile") or trace.eager or not len(trace.steps) or trace.steps.source in KERAS_STEP_SOURCES:
        return None
    python = trace.mean(Category.PYTHON) - step_growth.category_growth_ms(
        trace, Category.PYTHON
    )  # drift/growing-step owns that part
    lines = python_lines(trace)
    claimed = _claimed_places(trace, lines)
    mine = [li for li in lines if li.place not in claimed and source_lines.prints(trace, li.place) is printing]
    of_all, of_mine = (sum(line.ms for line in some) for some in (lines, mine))
    ms = python * of_mine / of_all if of_all else 0.0
    if ms <= 0:
        return None
    shares = (Line(li.place, ms * li.ms / of_mine, li.visits, li.ms / of_mine) for li in mine)
    return OwnPython(ms, tuple(sorted(shares, key=lambda line: -line.ms)), bool(trace.loop_lines))


def python_lines(trace: Trace) -> tuple[Line, ...]:
    """Lines of the script that run in a step and do not call the framework, with ms as weights."""
    calls = {place for lane in CALL_LANES for place in host_work.ms_by_line(trace, lane)}
    calls |= {e.place for e in trace.events_of("loop") if e.place is not None}
    lines = trace.loop_lines or sampled_lines(trace)
    return tuple(line for line in lines if line.place not in calls and line.ms > 0)


def sampled_lines(trace: Trace) -> tuple[Line, ...]:
    """Lines at which the main thread was sampled in steady steps. A run of few, long steps has no line window."""
    samples = trace.lane("stack")
    inside = samples.where(host_work.starts_in_steady(trace, samples))
    count = int(trace.steps.steady.sum())
    if len(inside) < MIN_SAMPLES or not count:
        return ()
    spent = host_work.ms_of_samples(trace, inside)
    numbers, which = np.unique(inside.name, return_inverse=True)
    ms: dict[Place, float] = {}
    for number, total in zip(numbers, np.bincount(which, spent), strict=True):
        place = trace.names[int(number)].place
        if place is not None:
            ms[place] = ms.get(place, 0.0) + float(total) / count
    whole = sum(ms.values())
    found = (Line(place, each, 0.0, each / whole) for place, each in ms.items() if whole)
    return tuple(sorted(found, key=lambda line: -line.ms))


def _claimed_places(trace: Trace, lines: tuple[Line, ...]) -> set[Place]:
    """Lines that other causes own: they make input, build data sets, read values back, write logs or save."""
    claimed = {w.place for pipe in trace.pipelines for w in pipe.written if w.place is not None}
    claimed |= {e.place for e in trace.events_of("iterator") if e.place is not None}
    read = set(host_work.ms_by_line(trace, "readback"))
    claimed |= {line.place for line in host_work.with_loop_heads(trace.loop_lines, read)} if read else set()
    claimed |= {
        li.place
        for li in lines
        if source_lines.writes_log(trace, li.place) or source_lines.writes_checkpoint(trace, li.place)
    }
    return claimed | _input_places(trace)


def _input_places(trace: Trace) -> set[Place]:
    """Lines of the input causes and transfer/per-step-feed, unless they ask the model for input, as agents do."""
    hand = handmade_input(trace)
    if input_follows_model(trace) and not (hand is not None and hand.is_interpreted):
        return set()
    if hand is not None:
        return handmade_input_places(trace)
    if host_work.batch_comes_from_python(trace) and trace.steps.training:
        return {line.place for line in divide_loop_lines(trace).before}
    return set()
