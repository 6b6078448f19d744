"""Follows a recording while it is written: each read takes what is new, and keeps a bounded part of it.

The newest spans are kept, so that the last seconds can be divided like a whole run. Of older steps only medians of
stretches are kept. The cost does not depend on the length of the run: of what was recorded before the first read,
evenly chosen pieces are read.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import sqlite3
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slowtrain.columns.arrays import Ints
from slowtrain.columns.spans import Event, Name
from slowtrain.errors import InputError
from slowtrain.recording import reader, recording_folder
from slowtrain.recording.reader import DAMAGE_ERRORS, Recording, json_object
from slowtrain.recording.step_history import StepHistories
from slowtrain.recording.thinned_summary import NO_ROWS

MAX_FOLLOWED_SPANS = 250_000  # kept; the oldest are dropped first
MAX_FOLLOWED_CHUNKS = 4_000
MAX_EVENT_ROWS = 20_000  # events of one kind
MAX_OLD_CHUNKS = 240  # chunks read of what was recorded before the first read
MAX_SAMPLES = 1_600  # machine samples; older ones are thinned
MAX_RECENT_SAMPLES = 1_200  # newest samples that are not thinned: five to ten minutes
LOCK_TIMEOUT_S = 0.5  # timeout; the writer holds its lock for milliseconds
MAX_SEARCHED_CHUNKS = 20  # chunks
KEPT_LANES = ("trace", "pipeline", "iterator", "window", "compile", "nonfinite")  # kept at any age
FOLLOWED_FACTS = tuple(
    "child steps_so_far machine devices recorder unfinished end_ns affinity_cores faults sources".split()
)


class Follower:
    """Reads one recording repeatedly. ``look`` reads what is new and raises ``InputError`` if there is no recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {}
        self.launch: Mapping[str, Any] = {}
        self.names: list[Name] = [Name("", "?")]
        self.histories = StepHistories()
        self.events: dict[str, deque[Event]] = {}
        self.samples: list[tuple[float, Mapping[str, Any]]] = []
        self.ended = ""
        self.gone = False  # the recording's folder was removed
        self.newest_ns = 0
        self._chunks: deque[Ints] = deque()
        self._spans = 0
        self._counters: deque[tuple[float, int, bytes]] = deque(maxlen=600)
        self._at = {"chunk": 0, "event": 0, "sample": 0, "pipeline": 0, "name": -1}
        self._raw_facts: dict[str, str] = {}
        self._first = True
        self.whole = True  # no steps were left out, or thinned before they were read

    @property
    def start_ns(self) -> int:
        return int(self.launch.get("start_ns") or (self.facts.get("child") or {}).get("begun_ns") or 0)

    def look(self) -> None:
        """Read what was written since the last call."""
        self.launch = recording_folder.read_launch(self.folder) or self.launch
        if not recording_folder.is_recording(self.folder):
            if self._first:
                recording_folder.require_begun_recording(self.folder)
            self.gone = not self._first
            return
        try:
            with contextlib.closing(reader.connect_readonly(self.folder, LOCK_TIMEOUT_S)) as database:
                self._take(database)
        except sqlite3.OperationalError:  # busy, or a disk problem: the next read may succeed
            if self._first:
                raise InputError(f"{self.folder} cannot be read now; try again") from None
        except DAMAGE_ERRORS as error:
            raise reader.damaged_error(self.folder, error) from error

    def _take(self, database: sqlite3.Connection) -> None:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version == 0 and self._first and self.launch and "end_ns" not in self.launch:
            return  # its file is being created
        if not 1 <= version <= reader.FORMAT_VERSION:
            reader.check_format(self.folder, database)
        self.ended = recording_folder.early_end_reason(self.folder)
        database.execute("BEGIN")  # one consistent snapshot for all reads below
        self._take_facts(database)
        self._take_names(database)
        self._take_events(database)
        self._take_chunks(database)
        self._take_samples(database)
        for number, at, iterator, proto in database.execute(
            "SELECT rowid, time_ns, iterator, proto FROM pipeline WHERE rowid > ? ORDER BY rowid DESC LIMIT 600",
            (self._at["pipeline"],),
        ).fetchall()[::-1]:
            self._at["pipeline"] = number
            self._counters.append((float(at), int(iterator), bytes(proto)))
        self._first = False

    def _take_facts(self, database: sqlite3.Connection) -> None:
        marks = ",".join("?" * len(FOLLOWED_FACTS))
        query = f"SELECT key, value FROM fact WHERE key IN ({marks})"  # noqa: S608  marks alone
        for key, value in database.execute(query, FOLLOWED_FACTS):
            if self._raw_facts.get(key) != value:
                self._raw_facts[key] = value
                self.facts[str(key)] = json.loads(value)

    def _take_names(self, database: sqlite3.Connection) -> None:
        # Threads may write names in another order than their numbers.
        rows = database.execute(
            "SELECT id, lane, name, detail FROM name WHERE id > ? ORDER BY id", (self._at["name"] - 100,)
        ).fetchall()
        for number, lane, text, detail in rows:
            self._at["name"] = max(self._at["name"], int(number))
            if number >= reader.MAX_NAMES:
                raise ValueError("too many names")
            while len(self.names) <= number:
                self.names.append(Name("", "?"))
            if not self.names[number].lane:
                self.names[number] = Name(str(lane), str(text)[: reader.MAX_TEXT_CHARS], json_object(detail))

    # -- events

    def _take_events(self, database: sqlite3.Connection) -> None:
        columns = "rowid, start_ns, end_ns, lane, name, data"
        since = self._at["event"]
        rows = database.execute(
            f"SELECT {columns} FROM event WHERE rowid > ? ORDER BY rowid DESC LIMIT {MAX_EVENT_ROWS}",  # noqa: S608
            (since,),
        ).fetchall()
        if len(rows) == MAX_EVENT_ROWS and self._first:
            marks = ",".join("?" * len(KEPT_LANES))
            rows += database.execute(
                f"SELECT {columns} FROM event WHERE rowid < ? AND lane IN ({marks}) "  # noqa: S608
                f"ORDER BY rowid DESC LIMIT {MAX_EVENT_ROWS}",
                (rows[-1][0], *KEPT_LANES),
            ).fetchall()
        for number, start, end, lane, name, data in reversed(rows):
            self._at["event"] = max(self._at["event"], int(number))
            lane_events = self.events.setdefault(str(lane), deque(maxlen=MAX_EVENT_ROWS))
            lane_events.append(
                Event(str(lane), str(name)[: reader.MAX_TEXT_CHARS], float(start), float(end), json_object(data))
            )
            if lane in ("epoch", "loop"):
                self.histories.add_breaks((int(start), int(end)))

    # -- spans

    def _take_chunks(self, database: sqlite3.Connection) -> None:
        after_gap = self._first
        if self._first:
            self._take_old(database)
        for number, data in database.execute(
            "SELECT id, data FROM chunk WHERE id > ? ORDER BY id", (self._at["chunk"],)
        ):
            # A missing chunk was thinned: no step crosses such a hole.
            self.whole &= int(number) == self._at["chunk"] + 1
            self._keep(reader.decode_chunk(data), after_gap or int(number) != self._at["chunk"] + 1)
            after_gap, self._at["chunk"] = False, int(number)

    def _take_old(self, database: sqlite3.Connection) -> None:
        """Of a long run, read chunks from all parts for the history, and set from which chunk on everything is read."""
        ids = [n for (n,) in database.execute("SELECT id FROM chunk ORDER BY id")]
        room, first = MAX_FOLLOWED_SPANS, len(ids)
        for number in reversed(ids[-MAX_FOLLOWED_CHUNKS:]):
            (size,) = database.execute("SELECT spans FROM chunk WHERE id = ?", (number,)).fetchone()
            room -= int(size)
            if room < 0:
                break
            first -= 1
        for number in ids[:first][:: max(first // MAX_OLD_CHUNKS, 1)]:
            (data,) = database.execute("SELECT data FROM chunk WHERE id = ?", (number,)).fetchone()
            self.histories.add(reader.decode_chunk(data), self.names, after_gap=True)
        self._at["chunk"] = ids[first - 1] if first else 0
        self.whole = not first

    def _keep(self, rows: Ints, after_gap: bool) -> None:
        self.histories.add(rows, self.names, after_gap)
        if len(rows):
            self.newest_ns = max(self.newest_ns, int(rows[:, 2].max()))
        self._chunks.append(rows)
        self._spans += len(rows)
        while len(self._chunks) > MAX_FOLLOWED_CHUNKS or (self._spans > MAX_FOLLOWED_SPANS and len(self._chunks) > 1):
            self._spans -= len(self._chunks.popleft())

    # -- samples of the machine

    def _take_samples(self, database: sqlite3.Connection) -> None:
        since = self._at["sample"]
        (count,) = database.execute("SELECT count(*) FROM sample WHERE rowid > ?", (since,)).fetchone()
        thin = max(int(count) - MAX_RECENT_SAMPLES, 0) // (MAX_SAMPLES - MAX_RECENT_SAMPLES) + 1
        (last,) = database.execute("SELECT max(rowid) FROM sample").fetchone()
        rows = database.execute(
            "SELECT rowid, time_ns, data FROM sample WHERE rowid > ? AND (rowid > ? OR rowid % ? = 0) ORDER BY rowid",
            (since, int(last or 0) - MAX_RECENT_SAMPLES, thin),
        )
        for number, at, data in rows:
            self._at["sample"] = int(number)
            self.samples.append((float(at), json_object(data)))
            self.newest_ns = max(self.newest_ns, int(at))
        if len(self.samples) > 2 * MAX_SAMPLES:
            self.samples[:-MAX_RECENT_SAMPLES] = self.samples[:-MAX_RECENT_SAMPLES:2]

    # -- what is asked

    def now_ns(self, alive: bool) -> int:
        """Return the moment up to which the run is known: now if it is alive, else its last record."""
        end = self.launch.get("end_ns") or self.facts.get("end_ns")
        if end:
            return int(end)
        at = time.perf_counter_ns()
        return at if alive and at >= self.newest_ns else self.newest_ns

    def spans(self, since_ns: int = 0) -> Ints:
        """Return raw spans that end at or after a moment, as far as they are kept."""
        late = [c for c in self._chunks if len(c) and int(c[:, 2].max()) >= since_ns]
        rows = np.concatenate(late) if late else NO_ROWS
        return rows[rows[:, 2] >= since_ns]

    def read_again(self, since_ns: int, until_ns: int) -> Ints:
        """Read raw spans of a stretch of the run from the file; it may be older than all kept spans."""
        try:
            with contextlib.closing(reader.connect_readonly(self.folder, LOCK_TIMEOUT_S)) as database:
                ids = [n for (n,) in database.execute("SELECT id FROM chunk ORDER BY id")]
                return _spans_between(database, ids, since_ns, until_ns)
        except DAMAGE_ERRORS:
            return NO_ROWS

    def recent_recording(self, since_ns: int, now_ns: int, rows: Ints | None = None) -> Recording:
        """Return the recording as if it began at ``since_ns``, with all names and definitions.

        ``rows`` are its spans, if they are not the kept ones.
        """
        start_ns = self.start_ns
        names = tuple(self.names)
        raw = np.ascontiguousarray((self.spans(since_ns) if rows is None else rows).T)
        lanes, _, main = reader.group_by_lane(raw, np.zeros(raw.shape[1], dtype=np.int64), names, start_ns)
        found = [e for lane in ("trace", "pipeline", "iterator", "window") for e in self.events.get(lane, ())]
        for lane, lane_events in self.events.items():
            if lane not in ("trace", "pipeline", "iterator", "window"):
                found += _events_ending_since(lane_events, since_ns)
        found += [
            Event(str(lane), str(name), float(at), float(now_ns), data)
            for at, lane, name, data in self.unfinished_events()
        ]
        events = tuple(
            Event(e.lane, e.name, (e.start_ms - start_ns) / 1e6, (e.end_ms - start_ns) / 1e6, e.data)
            for e in sorted(found, key=lambda e: e.start_ms)
        )
        samples = tuple(((at - start_ns) / 1e6, data) for at, data in self.samples if at >= since_ns)
        counters = tuple(((at - start_ns) / 1e6, it, proto) for at, it, proto in self._counters if at >= since_ns)
        end_ms = (now_ns - start_ns) / 1e6
        return Recording(
            self.folder, names, lanes, main, events, self.facts, samples, counters, end_ms, self.launch, start_ns
        )

    def kept_since_ns(self) -> int:
        """Return from which moment on spans are kept."""
        return next((int(rows[:, 2].min()) for rows in self._chunks if len(rows)), 0)

    def newest_end(self, silent: Collection[int]) -> int:
        """Return when the newest span with another name than these ended; 0 for none."""
        for rows in reversed(self._chunks):
            ends = rows[~np.isin(rows[:, 0], list(silent)), 2]
            if len(ends):
                return int(ends.max())
        return 0

    def newest_of(self, lane: str) -> int | None:
        """Return the name of the newest span of a lane; only the last chunks are searched."""
        wanted = [i for i, n in enumerate(self.names) if n.lane == lane]
        for rows in list(self._chunks)[: -1 - MAX_SEARCHED_CHUNKS : -1]:
            mine = rows[np.isin(rows[:, 0], wanted)]
            if len(mine):
                return int(mine[int(np.argmax(mine[:, 1])), 0])
        return None

    def unfinished_events(self) -> list[tuple[int, str, str, Mapping[str, Any]]]:
        """Return what began and has not ended, by the recorder's last report: ``(start_ns, lane, name, data)``."""
        rows = self.facts.get("unfinished") or ()
        return [(int(at), str(lane), str(name), data) for at, lane, name, data in rows if isinstance(data, dict)]


def _spans_between(database: sqlite3.Connection, ids: Sequence[int], since_ns: int, until_ns: int) -> Ints:
    """Return the spans of the chunks between two moments, as many as are kept in memory at most.

    Chunks are in order.
    """

    def rows(at: int) -> Ints:
        (data,) = database.execute("SELECT data FROM chunk WHERE id = ?", (ids[at],)).fetchone()
        return reader.decode_chunk(data)

    def end(at: int) -> int:
        return int(rows(at)[:, 2].max(initial=0))

    found, room = [NO_ROWS], MAX_FOLLOWED_SPANS
    for at in range(bisect.bisect_left(range(len(ids)), since_ns, key=end), len(ids)):
        one = rows(at)
        if room < 0 or not len(one) or int(one[:, 1].min()) > until_ns:
            break
        found.append(one)
        room -= len(one)
    return np.concatenate(found)


def _events_ending_since(events: deque[Event], since_ns: int) -> Iterable[Event]:
    """Return the events that end at or after a moment. Events are ordered by end; times are still the file's."""
    found = []
    for event in reversed(events):
        if event.end_ms < since_ns:
            break
        found.append(event)
    return found
