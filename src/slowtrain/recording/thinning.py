"""Keeps a recording below its maximum size, however long the run, by replacing older parts by summaries.

The run is divided into **stretches** of a few thousand spans. While there is room, all are kept whole. When the room
is used up, one of each pair of neighbours is kept whole and the other becomes a summary
(:mod:`slowtrain.recording.thinned_summary`); later one of four is kept, then one of eight. Which one is kept is
pseudo-random, so that it does not coincide with anything periodic in the run. It is fixed in advance, so that a later
stretch is thinned like the earlier ones. The result is a uniform sample of the whole run. The first stretches
(warm-up), and those around profiler windows or stops of the process, are always kept.

The recorder's thread thins one stretch at a time. Each takes a few milliseconds and is one transaction.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from slowtrain.recording.recording_folder import SCRATCH_FOLDER
from slowtrain.recording.store import (
    DATABASE_NAME,
    MAX_LOG_BYTES,
    SPAN_FIELDS,
    STOPPED_EVENT,
    THINNED_FORMAT_VERSION,
    Store,
)

DEFAULT_MAX_BYTES = 200_000_000  # maximum size of a recording, unless the user gives another one
MIN_MAX_BYTES = 16_000_000  # room for SQLite's log, a report, and enough data to diagnose
REPORT_BYTES = 4_000_000  # for the reports and notes in the recording's folder
FULL_SHARE = 0.8  # share of the room at which thinning begins
HURRY_SHARE = 0.92  # share of the room at which it hurries
# Of the maximum size, for each span kept whole: a million spans are read in seconds, and are plenty.
ROOM_BYTES_A_SPAN = 200
SPANS_AN_EVENT = 16  # spans that take as long to read as one event
STRETCH_SPANS = 4096  # spans of one stretch, without those of sampled lanes
MAX_STRETCH_SPANS = 1 << 16  # spans of any lane in one stretch, if steps are long
MIN_STRETCH_STEPS = 32  # steps of one stretch, unless it would become too long
SAMPLED_LANES = frozenset({"stack", "gc", "memory", "held"})  # lanes whose spans come with time, not with steps
STEP_LANES = frozenset({"step", "on_batch", "gradient", "function"})
WARM_UP_STRETCHES = 2  # stretches that are always kept: the start and the warm-up
RECENT_NS = 60_000_000_000  # the newest part stays whole for those who watch the run
MAX_EVENTS_OF_KIND = 8  # events of one kind kept in a hole
KEPT_LANES = ("window", "nonfinite", "checked", "suspend")  # lanes whose events are all kept
SERIES_LANES = ("pipeline", "iterator")  # lanes in which each event has a name of its own
FOLLOWING_EVENTS = 8  # events after a stretch that are read, because an epoch may end between it and the next one
STRETCHES_A_FLUSH = 2  # stretches thinned at once
HURRIED_STRETCHES = 8
MAX_FINISH_NS = 2_000_000_000  # maximum time for thinning at the end of the run
MIN_WHOLE_STRETCHES = 32  # minimum number of whole stretches, as long as the disk has room
FLUSHES_A_FOLDER_LOOK = 10  # flushes between two measurements of the other files in the folder

now = time.perf_counter_ns
MAX_SAMPLES = 20_000  # several times the points of a chart; about 10 MB
RECENT_SAMPLES = 240  # the newest samples are never dropped
GROUP_SAMPLES = 16  # neighbours of which every fourth is kept, and the peaks
BATCH_SAMPLES = 16 * GROUP_SAMPLES
KEPT_MAXIMA = ("rss_bytes", "gpu_memory_used_bytes", "gpu_celsius")
KEPT_MINIMA = ("available_bytes",)


@dataclass(frozen=True)
class Stretch:
    """Chunks ``first`` to ``last``, the events and pipeline counters written with them, and their ``cost`` in spans."""

    index: int
    first: int
    last: int
    start_ns: int
    end_ns: int
    cost: int
    events: tuple[int, int]
    counters: tuple[int, int]
    always: bool = False


class Thinning:
    """Gets all rows that are written, in the recorder's thread. :meth:`work` thins a few stretches."""

    def __init__(self, store: Store, folder: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.store = store
        self.folder = folder
        self.max_bytes = max_bytes
        self.most_cost = max_bytes // ROOM_BYTES_A_SPAN
        self.level = 0  # one stretch in 2 ** level is kept
        self.samples = SampleThinning(store)
        self._lanes: dict[int, str] = {}
        self._quiet: set[int] = set()  # names of sampled lanes
        self._turning: set[int] = set()
        self._stretches: list[Stretch] = []
        self._cost = 0  # of the stretches kept whole
        self._holes: dict[int, Stretch] = {}  # by the first chunk
        self._ends: dict[int, int] = {}  # last chunk of a hole -> its first
        self._todo: list[Stretch] = []
        self._next = 0
        self._index = 0
        self._open: list[int] = []  # chunks of the stretch that is being written
        self._spans = self._telling = self._turns = self._noted = 0
        self._windowed = False
        self._marks = 1, 1
        self._start_ns = self._end_ns = now()
        self._flushes = 0
        self._side_bytes = 0

    # -- what was written

    def note_names(self, names: Iterable[tuple[int, str, Any, Any]]) -> None:
        for number, lane, _, _ in names:
            self._lanes[number] = lane
            if lane in SAMPLED_LANES:
                self._quiet.add(number)
            elif lane in STEP_LANES:
                self._turning.add(number)

    def wrote(self, chunk: int, spans: array[int], events: Sequence[Any]) -> None:
        """Counts the rows after each commit."""
        self._noted += len(events)
        self._windowed |= any(e[2] == "window" or e[3] == STOPPED_EVENT for e in events)
        if not chunk:
            return
        self._open.append(chunk)
        for name, count in Counter(spans[::SPAN_FIELDS]).items():
            self._spans += count
            self._telling += 0 if name in self._quiet else count
            self._turns += count if name in self._turning else 0
        newest_ns = max(spans[2::SPAN_FIELDS])
        self._end_ns = max(self._end_ns, newest_ns)
        whole = self._telling + SPANS_AN_EVENT * self._noted >= STRETCH_SPANS and self._turns >= MIN_STRETCH_STEPS
        if whole or self._spans + SPANS_AN_EVENT * self._noted >= MAX_STRETCH_SPANS:
            self._close()

    def _close(self) -> None:
        marks = tuple(self.store.next_row(table) for table in ("event", "pipeline"))
        stretch = Stretch(
            self._index, self._open[0], self._open[-1], self._start_ns, self._end_ns,
            self._spans + SPANS_AN_EVENT * self._noted, (self._marks[0], marks[0]), (self._marks[1], marks[1]),
            self._windowed or self._index < WARM_UP_STRETCHES,
        )  # fmt: skip
        if self._windowed and self._stretches:  # the stretch in which the window began
            self._stretches[-1] = replace(self._stretches[-1], always=True)
        self._stretches.append(stretch)
        self._cost += stretch.cost
        self._index += 1
        self._marks, self._start_ns = (marks[0], marks[1]), self._end_ns
        self._open, self._windowed = [], False
        self._spans = self._telling = self._turns = self._noted = 0

    # -- thinning

    def work(self, hurry: bool = False) -> bool:
        """Thins a few stretches if it is time to. Returns False if the recording is too large in spite of that."""
        self._flushes += 1
        if self._flushes % FLUSHES_A_FOLDER_LOOK == 1:
            self._side_bytes = side_file_bytes(self.folder)
        self.samples.work()
        used, room = self.store.used_bytes(), self.room_bytes()
        hurry |= used > HURRY_SHARE * room
        old = self._first_new_index(hurry)
        if not self._todo and self._is_time(old, used > FULL_SHARE * room):
            self.level += 1
            self._next = 0
        left = HURRIED_STRETCHES if hurry else STRETCHES_A_FLUSH
        while left and (one := self._waiting(old)) is not None:
            self._thin(one)
            left -= 1
        return used <= room

    def room_bytes(self) -> int:
        """Returns the bytes that SQLite's own file may use."""
        return max(self.max_bytes - self._side_bytes - MAX_LOG_BYTES - REPORT_BYTES, 0)

    def finish(self) -> None:
        """Thins the last minute of the run like the rest, so that it does not count for more."""
        until = now() + MAX_FINISH_NS
        old = self._first_new_index(True)
        while now() < until and (one := self._waiting(old)) is not None:
            self._thin(one)

    def _first_new_index(self, hurry: bool) -> int:
        """Returns the index of the first stretch that is too new to be thinned."""
        if hurry:
            return self._index
        cost, young = 0, self._index
        for one in reversed(self._stretches):
            cost += one.cost
            if one.end_ns < self._end_ns - RECENT_NS or cost > self.most_cost // 4:
                break
            young = one.index
        return young

    def _is_time(self, old: int, full: bool) -> bool:
        """Returns whether fewer stretches are to be kept from now on. Only if that makes room."""
        if not full and self._cost <= self.most_cost:
            return False
        least = 2 if full else MIN_WHOLE_STRETCHES
        return sum(s.index < old and not s.always for s in self._stretches) >= least

    def _waiting(self, old: int) -> Stretch | None:
        """Returns the next stretch to thin, or None.

        Collects the stretches that have become old since the last round.
        """
        if not self._todo and self.level and self._next < old:
            fresh = list(takewhile(lambda s: s.index >= self._next, reversed(self._stretches)))
            self._todo = [s for s in reversed(fresh) if s.index < old and self._goes(s)]
            self._next = old
        return self._todo.pop(0) if self._todo else None

    def _goes(self, one: Stretch) -> bool:
        return not one.always and not is_kept_at_level(one.index, self.level)

    def _thin(self, one: Stretch) -> None:
        """Replaces the stretch and the holes next to it by one hole."""
        from slowtrain.recording import thinned_summary

        store = self.store
        rows = thinned_summary.chunk_rows([zlib.decompress(d) for (d,) in store.chunks(one.first, one.last)])
        breaks = thinned_summary.sorted_ns(store.moments(one.events[0], one.events[1] + FOLLOWING_EVENTS))
        before = self._holes.get(self._ends.get(one.first - 1, 0))
        after = self._holes.get(one.last + 1)
        if after is not None:
            following = {n: t.first_ns for n, t in thinned_summary.unpack_hole(store.hole(after.first)).turns.items()}
        else:
            following = thinned_summary.first_starts(
                thinned_summary.chunk_rows([zlib.decompress(d) for (d,) in store.chunks(one.last + 1, one.last + 1)])
            )
        hole = thinned_summary.summarize_spans(
            rows, lambda n: self._lanes.get(n, ""), breaks, one.start_ns, one.end_ns, following
        )
        whole = one
        for near, first in ((before, True), (after, False)):
            if near is not None:
                known = thinned_summary.unpack_hole(store.hole(near.first))
                hole = thinned_summary.join_holes(known, hole) if first else thinned_summary.join_holes(hole, known)
                whole = _join_stretches(near, whole) if first else _join_stretches(whole, near)
        store.begin()
        dropped = self._events(whole)
        self._counters(whole)
        dropped = {lane: dropped.get(lane, 0) + hole.events.get(lane, 0) for lane in {*dropped, *hole.events}}
        hole = replace(hole, events=dropped)
        store.thin(whole.first, whole.last, thinned_summary.pack_hole(hole))
        store.version(THINNED_FORMAT_VERSION)
        store.commit()
        for near in (before, after):
            if near is not None:
                del self._holes[near.first], self._ends[near.last]
        self._holes[whole.first], self._ends[whole.last] = whole, whole.first
        self._stretches.remove(one)
        self._cost -= one.cost

    def _events(self, whole: Stretch) -> dict[str, int]:
        """Drops events of a hole. Keeps the longest of each kind; of a series, the first and the last."""
        kinds: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row, lane, name, ns in self.store.events_between(*whole.events):
            if lane not in KEPT_LANES:
                kinds.setdefault((lane, "" if lane in SERIES_LANES else name), []).append((row, ns))
        gone: list[int] = []
        dropped: dict[str, int] = {}
        for (lane, _), found in kinds.items():
            if len(found) > MAX_EVENTS_OF_KIND:
                half = MAX_EVENTS_OF_KIND // 2
                out = (
                    found[half:-half]
                    if lane in SERIES_LANES
                    else sorted(found, key=lambda e: -e[1])[MAX_EVENTS_OF_KIND:]
                )
                gone += [row for row, _ in out]
                dropped[lane] = dropped.get(lane, 0) + len(out)
        self.store.drop("event", gone)
        return dropped

    def _counters(self, whole: Stretch) -> None:
        """Drops pipeline counters of a hole.

        Counters are totals, so the last one of each iterator is enough. Of very many iterators, the first and last are
        kept.
        """
        last = dict[int, int]()
        found = self.store.counters_between(*whole.counters)
        for row, iterator in found:
            last[iterator] = row
        keep = list(last.values())
        keep = keep[: MAX_EVENTS_OF_KIND // 2] + keep[-(MAX_EVENTS_OF_KIND // 2) :]
        self.store.drop("pipeline", [row for row, _ in found if row not in keep])


def _join_stretches(one: Stretch, two: Stretch) -> Stretch:
    return Stretch(
        one.index, one.first, two.last, one.start_ns, two.end_ns, 0,
        (one.events[0], two.events[1]), (one.counters[0], two.counters[1]),
    )  # fmt: skip


def is_kept_at_level(index: int, level: int) -> bool:
    """Returns whether this stretch is the one that is kept of its 2 ** level."""
    group = index >> level
    for _ in range(level):
        group = 2 * group + _random_bit(group)
    return group == index


def _random_bit(number: int) -> int:
    """Returns 0 or 1, a pseudo-random function of ``number`` (the finaliser of SplitMix64)."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return (mixed ^ mixed >> 31) & 1


def side_file_bytes(folder: Path) -> int:
    """Returns the bytes of the recorder's files beside SQLite's in the folder, mainly profiler windows."""
    found = 0
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != SCRATCH_FOLDER]
        for name in files:
            if not name.startswith(DATABASE_NAME):
                try:
                    found += os.stat(os.path.join(base, name)).st_size
                except OSError:
                    continue
    return found


class SampleThinning:
    """Goes through all samples but the newest in rounds, a few at a time. A round leaves at most half of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.count = 0
        self._at: int | None = None  # the row at which the round continues

    def wrote(self, count: int) -> None:
        self.count += count

    def work(self) -> None:
        if self._at is None and self.count > MAX_SAMPLES:
            self._at = 0
        if self._at is None:
            return
        rows = self.store.samples_after(self._at, BATCH_SAMPLES + RECENT_SAMPLES)
        if len(rows) < BATCH_SAMPLES + RECENT_SAMPLES:
            self._at = None
            return
        rows = rows[:BATCH_SAMPLES]
        self._at = rows[-1][0]
        gone = [row for i in range(0, len(rows), GROUP_SAMPLES) for row in _dropped_rows(rows[i : i + GROUP_SAMPLES])]
        self.store.begin()
        self.store.drop("sample", gone)
        self.store.commit()
        self.count -= len(gone)


def _dropped_rows(rows: list[tuple[int, str]]) -> list[int]:
    data = [json.loads(text) for _, text in rows]
    kept_rows = set(range(0, len(rows), 4))
    for key, sign in [*((k, 1.0) for k in KEPT_MAXIMA), *((k, -1.0) for k in KEPT_MINIMA)]:
        values = [(sign * value, i) for i, d in enumerate(data) if (value := _highest_number(d.get(key))) is not None]
        if values:
            kept_rows.add(max(values)[1])
    return [row for i, (row, _) in enumerate(rows) if i not in kept_rows]


def _highest_number(value: Any) -> float | None:
    """Returns the highest value of a figure that several GPUs have; None if it is absent."""
    values = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, (int, float))]
    return float(max(values)) if values else None
