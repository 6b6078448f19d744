"""The total steps of a run, if they are known: from the arguments of ``fit``, else from the loops of the script.

Loops are read in the text that is kept with the recording. If the loop over epochs iterates a data set of unknown
length, the recording counts the steps of an epoch once a pass has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from slowtrain.columns.arrays import Ints, median_value
from slowtrain.columns.spans import Event
from slowtrain.model import Place
from slowtrain.script.locations import trip_counts
from slowtrain.script.locations.trip_counts import StepCount
from slowtrain.script.text import source_file
from slowtrain.trace import Trace
from slowtrain.trace.signals import step_trend

MAX_TEXT_CHARS = 300_000  # characters; the recorder truncates longer scripts
MIN_STEPS_RATIO = 1.01  # times the steps so far; below it the run is at its end


class PlannedSteps(Struct, frozen=True):
    """``steps`` of the whole run, or at most that many. ``place``: the loop that shows this; None: ``fit`` does.

    ``each``: the steps of one iteration of that loop, if they were counted in the recording.
    """

    steps: int
    at_most: bool = False
    place: Place | None = None
    each: int | None = None

    def __str__(self) -> str:
        upto = "at most " if self.at_most else ""
        text = f"{upto}{self.steps:,} steps"
        if self.each is not None:
            return f"{text} ({self.steps // self.each:,} turns of the loop {self.where}, {self.each:,} counted in each)"
        return f"{text} by the loop {self.where}" if self.place is not None else text

    @property
    def where(self) -> str:
        """The loop's place for people: ``train.py:12``."""
        return self.place.short if self.place is not None else ""


def find_planned_steps(trace: Trace) -> PlannedSteps | None:
    """The planned steps of a run that is not over; None if the run does not say them."""
    if not len(trace.steps):
        return None
    found = _fit_plan(trace) if trace.steps.source == "fit" else _loop_plan(trace)
    done = float(step_trend.step_numbers(trace.steps)[-1]) + 1
    return found if found is not None and found.steps > MIN_STEPS_RATIO * done else None


def written_step_count(trace: Trace) -> tuple[StepCount, Place] | None:
    """The step count by the script's loops, and the outermost loop.

    Uses only the text that was recorded: the file on disk may have changed, and a profile keeps no text.
    """
    place = trace.steps.place
    text = trace.fact("sources", place.file) if place is not None and not trace.fact("profile") else None
    if place is None or not isinstance(text, str) or len(text) >= MAX_TEXT_CHARS:
        return None
    parsed, found = source_file.parse_source(place.file, text), None
    with contextlib.suppress(RecursionError):  # nested too deeply
        found = trip_counts.static_step_count(parsed, trace.steps.source, place.line) if parsed is not None else None
    return (found, Place(place.file, found.line)) if found is not None else None


def dataset_passes(events: Iterable[Event], file: str, head: tuple[int, int]) -> list[Event]:
    """The iterator creations of a loop over a data set, in order; empty if some may be missing from the recording.

    Iterators are numbered from 1, which shows whether one is missing in a thinned run.
    """
    starts = sorted((e for e in events if e.lane == "iterator"), key=lambda e: e.start_ms)
    numbers = {e.data["number"] for e in starts if isinstance(e.data.get("number"), int)}
    if numbers != set(range(1, len(numbers) + 1)):
        return []
    places = ((e, e.place) for e in starts)
    return [e for e, p in places if p is not None and p.file == file and head[0] <= p.line <= head[1]]


def _fit_plan(trace: Trace) -> PlannedSteps | None:
    """The plan by ``epochs`` and ``steps_per_epoch`` of ``fit``, or by the length of the epochs so far."""
    fits = [e for e in trace.events_of("loop") if e.name == "fit" and not e.data.get("nested")]
    if len(fits) != 1:
        return None
    epochs = fits[0].data.get("epochs")
    lengths = np.bincount(trace.steps.block - trace.steps.block[0])
    each = fits[0].data.get("steps_per_epoch") or (int(median_value(lengths[:-1])) if len(lengths) > 1 else 0)
    known = isinstance(each, (int, float)) and 0 < each <= trip_counts.MAX_STEPS
    return PlannedSteps(epochs * int(each)) if isinstance(epochs, int) and known else None


def _loop_plan(trace: Trace) -> PlannedSteps | None:
    """The plan by the loops around the step. A run that ended well took all its steps, whatever the text says."""
    written = written_step_count(trace) if trace.fact("launch", "exit_code") != 0 else None
    if written is None:
        return None
    found, place = written
    if found.head is None:
        return PlannedSteps(found.turns, found.at_most, place)
    begun = dataset_passes(trace.events_of("iterator"), place.file, found.head)
    each = _steps_per_pass(trace, begun) if len(begun) <= found.turns else None
    return PlannedSteps(found.turns * each, found.at_most, place, each) if each is not None else None


def _steps_per_pass(trace: Trace, begun: list[Event]) -> int | None:
    """The steps between iterator creations, if always equal. Of a thinned run some steps are missing."""
    numbers: Ints = trace.steps.number
    before = np.searchsorted(trace.steps.start_ms, [e.start_ms for e in begun])  # the first step behind each
    exact = [0 < i < len(numbers) and numbers[i] - numbers[i - 1] == 1 for i in before]
    exact = [known or (i == 0 and numbers[0] == 0) for i, known in zip(before, exact, strict=True)]
    pairs = range(1, len(before))
    found = {int(numbers[before[i]] - numbers[before[i - 1]]) for i in pairs if exact[i] and exact[i - 1]}
    return found.pop() if len(found) == 1 and 0 not in found else None
