"""Spans of one lane, their names, and rare events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from slowtrain.columns import intervals
from slowtrain.columns.arrays import NO_FLOATS, NO_INTS, Bools, Floats, Ints
from slowtrain.model import Place


class Name(Struct, frozen=True):
    """The name of a span; ``detail`` holds its source place and what else the recorder knew."""

    lane: str
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> Place | None:
        """The user's line that made the call."""
        return place_of(self.detail.get("site"))


def place_of(site: Sequence[Any] | None) -> Place | None:
    """Return ``[file, line]`` as a place, None for None."""
    return Place(str(site[0]), int(site[1])) if site and site[1] is not None else None


class Spans(Struct, frozen=True):
    """Spans of one lane in order of start. ``name`` indexes ``Trace.names``; ``value`` depends on the lane."""

    start_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    end_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    name: Ints = field(default_factory=lambda: NO_INTS)
    thread: Ints = field(default_factory=lambda: NO_INTS)
    value: Ints = field(default_factory=lambda: NO_INTS)

    def __len__(self) -> int:
        return len(self.start_ms)

    @property
    def ms(self) -> Floats:
        return self.end_ms - self.start_ms

    def where(self, keep: Bools) -> Spans:
        return Spans(self.start_ms[keep], self.end_ms[keep], self.name[keep], self.thread[keep], self.value[keep])

    @property
    def times(self) -> intervals.Intervals:
        """When any span runs."""
        return intervals.union(self.start_ms, self.end_ms)

    def starting_between(self, start_ms: float, end_ms: float) -> Spans:
        """Return the spans that start in ``[start_ms, end_ms)``."""
        a, b = np.searchsorted(self.start_ms, (start_ms, end_ms))
        some = slice(int(a), int(max(a, b)))
        return Spans(self.start_ms[some], self.end_ms[some], self.name[some], self.thread[some], self.value[some])


def count_by_place(names: Sequence[Name], spans: Spans) -> dict[Place, int]:
    """Return how many of the spans are of each line of the user's."""
    found: dict[Place, int] = {}
    for number, count in zip(*np.unique(spans.name, return_counts=True), strict=True):
        place = names[int(number)].place
        if place is not None:
            found[place] = found.get(place, 0) + int(count)
    return found


def times_of(events: Iterable[Event]) -> intervals.Intervals:
    """Return the disjoint, ordered intervals of these events."""
    rows = np.array([(e.start_ms, e.end_ms) for e in events], dtype=float).reshape(-1, 2)
    return intervals.union(rows[:, 0], rows[:, 1])


class Event(Struct, frozen=True):
    """A rare event with its details."""

    lane: str
    name: str
    start_ms: float
    end_ms: float
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ms(self) -> float:
        return self.end_ms - self.start_ms

    @property
    def place(self) -> Place | None:
        return place_of(self.data.get("site"))
