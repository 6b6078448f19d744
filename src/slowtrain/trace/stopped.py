"""Times when the process did not run: it was stopped, or the machine slept. Steps did not get longer by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from slowtrain.figures import plain
from slowtrain.trace import Event, intervals
from slowtrain.trace.intervals import Intervals

LANE, STOPPED = "suspend", "process stopped"


def stretches(events: Iterable[Event]) -> Intervals:
    """Return when the process was stopped, as far as the recorder noted it."""
    found = [(e.start_ms, e.end_ms) for e in events if e.lane == LANE and e.name == STOPPED]
    return intervals.union(*np.array(found, dtype=float).reshape(-1, 2).T)


def notes(events: Iterable[Event]) -> Iterator[str]:
    """Yield what a reader of the report should know about stops."""
    events = list(events)
    start, end = stretches(events)
    if len(start):
        often, seconds = "once" if len(start) == 1 else f"{len(start)} times", float((end - start).sum()) / 1e3
        yield (
            f"the process was stopped {often}, for {plain(seconds)} s (Ctrl-Z, SIGSTOP, a debugger, a frozen container "
            "or machine): the steps that this fell into do not count"
        )
    slept = sum(float(e.data.get("slept_s") or 0.0) for e in events if e.lane == LANE and e.name != STOPPED)
    if slept > 0:
        yield f"the machine slept for {plain(slept)} s meanwhile, which is in no time here: its clock stood still"
