"""How far into a very large profile is read, so that memory and time stay bounded.

All lines are read up to the same moment, so that this part is complete. The moment is chosen before anything is
decoded, from events sampled at some places of each long line: their times, and the bytes per event there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slowtrain.columns.arrays import Floats
from slowtrain.number_text import format_number
from slowtrain.profile.format import xplane

MAX_TIMELINE_EVENTS = 24_000_000  # about 700 MB of a profile; some 1.2 GB of memory
MAX_DEEP_EVENTS = 8_000_000  # of a profile whose events are all kept with their statistics
MIN_EVENT_BYTES = 12  # a name, a time and a duration; most profiles are known to be small by their size alone
MAX_SHORT_LINE_BYTES = 1 << 18  # lines up to this size are not sampled
MAX_SAMPLED_PLACES = 256  # sampled in all lines together


@dataclass(frozen=True)
class Horizon:
    """Events from ``ps`` on are left out; the profile has about ``events`` and lasts about until ``end_ps``."""

    ps: int
    end_ps: int
    events: int

    def __str__(self) -> str:
        seconds, of = self.ps / 1e12, self.end_ps / 1e12
        return (
            f"the report covers only the first {format_number(seconds)} s of about {format_number(of)} s, because "
            f"about {self.events / 1e6:.0f} "
            "million events are too many to read; slowtrain cut --from-ms writes a profile of a later part"
        )


def find_horizon(lines: Sequence[xplane.Line], most: int | None = None) -> Horizon | None:
    """Return the horizon; None if all lines can be read. ``most`` overrides the default number of events."""
    most = MAX_TIMELINE_EVENTS if most is None else most
    if sum(line.size_bytes for line in lines) < most * MIN_EVENT_BYTES:
        return None
    long = [line for line in lines if line.size_bytes > MAX_SHORT_LINE_BYTES]
    grown = [
        found
        for line in long
        if (found := _events_over_time(line, max(MAX_SAMPLED_PLACES // len(long), 4))) is not None
    ]
    if not grown:
        return None
    times = np.unique(np.concatenate([times for times, _ in grown]))
    events = sum((np.interp(times, *one) for one in grown), np.zeros(len(times)))
    if events[-1] <= most:
        return None
    return Horizon(int(np.interp(most, events, times)), int(times[-1]), int(events[-1]))


def _events_over_time(line: xplane.Line, places: int) -> tuple[Floats, Floats] | None:
    """Return moments, and about how many events of the line come before each; None if nothing could be sampled."""
    found = line.sampled(places)
    if not found:
        return None
    at, times, each = (np.array(column, dtype=np.float64) for column in zip(*found, strict=True))
    until = np.append(at[1:], line.size_bytes)
    events = np.concatenate(([0.0], np.cumsum((until - at) / each)))
    times = np.maximum.accumulate(times)
    # The length of the last stretch is unknown: assumes the same time per byte as before it.
    pace = (times[-1] - times[0]) / max(at[-1] - at[0], 1.0)
    return np.append(times, times[-1] + pace * (until[-1] - at[-1])), events
