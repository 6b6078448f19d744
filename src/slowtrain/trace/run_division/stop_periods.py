"""Times when the process did not run: it was stopped, or the machine slept. Steps did not get longer by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from slowtrain.columns import intervals
from slowtrain.columns.intervals import Intervals
from slowtrain.columns.spans import Event
from slowtrain.number_text import format_number

SUSPEND_LANE, STOPPED_EVENT = "suspend", "process stopped"


def stopped_times(events: Iterable[Event]) -> Intervals:
    """Return when the process was stopped, as far as the recorder noted it."""
    found = [(e.start_ms, e.end_ms) for e in events if e.lane == SUSPEND_LANE and e.name == STOPPED_EVENT]
    return intervals.union(*np.array(found, dtype=float).reshape(-1, 2).T)


def stop_notes(events: Iterable[Event]) -> Iterator[str]:
    """Yield what a reader of the report should know about stops."""
    events = list(events)
    start, end = stopped_times(events)
    if len(start):
        often, seconds = "once" if len(start) == 1 else f"{len(start)} times", float((end - start).sum()) / 1e3
        yield (
            f"the process was stopped {often}, for {format_number(seconds)} s (Ctrl-Z, SIGSTOP, a debugger, a "
            "frozen container or machine): the steps during a stop do not count"
        )
    slept = sum(
        float(e.data.get("slept_s") or 0.0) for e in events if e.lane == SUSPEND_LANE and e.name != STOPPED_EVENT
    )
    if slept > 0:
        yield (
            f"the machine slept for {format_number(slept)} s, which no time in this report includes: its clock "
            "stood still"
        )
