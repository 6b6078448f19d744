"""Profiles (``*.xplane.pb``, the XSpace of TensorFlow and JAX) as columns, without TensorFlow and protobuf.

Reading decodes only the skeleton: planes, tables of names, headers of lines. A line's events are decoded on request,
field k of all events at a time, into NumPy columns, without a Python object per event. Memory therefore depends on
what is kept, not on the file, which is mapped and released page by page.

Time and memory are bounded for any input. The result is columns or one ``InputError``. The schema is
tsl/profiler/protobuf/xplane.proto; unknown fields are skipped.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec import Struct, field

from slowtrain.columns.arrays import Bools, Codes, Ints, distinct_with_codes
from slowtrain.errors import InputError
from slowtrain.profile import profile_files
from slowtrain.profile.format import event_columns, message_chain
from slowtrain.profile.format.event_columns import (
    STAT_BYTES,
    STAT_DOUBLE,
    STAT_ID,
    STAT_INT,
    STAT_REF,
    STAT_TEXT,
    STAT_UINT,
    Stat,
    StatColumn,
    StatNames,
)
from slowtrain.profile.format.wire_format import (
    MAX_TIME_PS,
    VARINT,
    ByteWindow,
    MessageRun,
    ProtoFile,
    field_tag,
    message_run_of,
    message_runs,
    to_signed,
)

Value: TypeAlias = "int | float | str | bytes"

MAX_LINES = 20_000  # threads and streams in one file, each a millisecond of work; real files have less than a thousand
MAX_TABLE_ID = 1 << 22  # of a table of names by metadata id
SAMPLE_BYTES = 1 << 14


class Events(Struct, frozen=True):
    """The events of one line, in the file's order."""

    metadata_id: Ints  # into Plane.event_names
    start_ps: Ints  # since Space.origin_ns
    duration_ps: Ints
    occurrences: Ints | None  # set if these are sums, not single events; they start at their line's start
    stats: Mapping[str, Stat]  # the requested ones

    def __len__(self) -> int:
        return len(self.metadata_id)

    def starting_before(self, ps: int) -> Events:
        """Return the events that start before ``ps``."""
        keep = self.start_ps < ps
        if keep.all():
            return self
        occurrences = self.occurrences[keep] if self.occurrences is not None else None
        return Events(self.metadata_id[keep], self.start_ps[keep], self.duration_ps[keep], occurrences,
                      {name: stat.where(keep) for name, stat in self.stats.items()})  # fmt: skip


_LINE_ID, _LINE_NAME, _LINE_TIMESTAMP = field_tag(1, VARINT), field_tag(2), field_tag(3, VARINT)


class Line(Struct, frozen=True, eq=False):
    """One thread of the host or one stream of a device."""

    id: int
    name: str
    timestamp_ns: int  # its events' offsets count from here
    _file: ProtoFile
    _span: tuple[int, int]  # bytes from its first event to its end
    _stat_names: StatNames

    def events(self, stats: Collection[str] = (), names: Bools | None = None, before_ps: int | None = None) -> Events:
        """Decode the events, with the named statistics.

        ``names`` says for each metadata id whether its events are wanted; events with ids beyond it are not. Events
        that start at ``before_ps`` or later are left out. Writers put events in order of time, so that decoding stops
        there.
        """
        wanted = {stat: StatColumn(stat, self._stat_names) for stat in stats}
        gathered: list[list[Ints]] = [[] for _ in range(4)]
        count = 0
        for stretch in self.stretches():
            if names is not None:
                stretch = event_columns.with_wanted_names(stretch, names)
            self._file.count_events(len(stretch.start))
            columns = self.decode(stretch, count, wanted.values())
            late = before_ps is not None and len(columns[1]) > 0 and int(columns[1].min()) >= before_ps
            for parts, column in zip(gathered, columns, strict=True):
                parts.append(column if column.any() else np.zeros(len(column), np.int8))
            count += len(stretch.start)
            if late:
                break
        # Joins one column at a time, so that only one is in memory twice.
        id_, start_ps, duration_ps, occurrences = (
            np.concatenate((np.empty(0, np.int64), *gathered.pop(0))) for _ in range(4)
        )
        found = Events(id_, start_ps, duration_ps, occurrences if occurrences.any() else None,
                       {stat: column.build(count) for stat, column in wanted.items()})  # fmt: skip
        return found if before_ps is None else found.starting_before(before_ps)

    @property
    def size_bytes(self) -> int:
        return self._span[1] - self._span[0]

    def sample_events(self, places: int) -> list[tuple[int, int, float]]:
        """Return some events as (bytes of the line before it, start in ps, mean bytes per event there)."""
        file, (pos, end) = self._file, self._span
        found = []
        for part in range(places):
            at = pos + (end - pos) * part // places
            window = ByteWindow(file.array[at : min(at + SAMPLE_BYTES, end)])
            if (
                met := message_chain.find_field(
                    window.bytes, window.size, event_columns.EVENT_TAG, event_columns.EVENT_ID_TAG
                )
            ) is not None:
                columns = self._event_columns_at(window, met[0])
                if columns is not None:
                    found.append((at + met[0] - pos, int(columns[1][0]), met[1]))
            file.release_pages(at, at + window.size)
        return found

    def _event_columns_at(self, window: ByteWindow, at: int) -> list[Ints] | None:
        """Return the columns of the event at ``at``; None if there is no event."""
        try:
            edges = np.append(at, message_chain.field_ends(window.bytes, window.size, np.array([at])))
            return self.decode(message_run_of(window, edges, 0))
        except InputError:
            return None

    def decode(self, stretch: MessageRun, first_row: int = 0, wanted: Collection[StatColumn] = ()) -> list[Ints]:
        """Return the columns metadata_id, start_ps, duration_ps and occurrences; statistics are added to ``wanted``."""
        columns = event_columns.decode_events(self._file, stretch, first_row, wanted)
        base_ps = (self.timestamp_ns - self._file.origin_ns) * 1000
        if abs(base_ps) >= MAX_TIME_PS or any(
            time.max(initial=0) >= MAX_TIME_PS or time.min(initial=0) <= -MAX_TIME_PS for time in columns[1:3]
        ):
            raise self._file.input_error(f"an event of line {self.name!r} is more than {MAX_TIME_PS} ps away")
        columns[1] += base_ps
        return columns

    def stretches(self) -> Iterator[MessageRun]:
        """Yield the events in the file's order, some thousands at a time."""
        file, (pos, end) = self._file, self._span
        for stretch in message_runs(file, pos, end, event_columns.EVENT_TAG, event_columns.EVENT_ID_TAG):
            yield stretch
            pos = int(stretch.edges[-1])
        for tag, _, _ in file.fields(pos, end):
            # Every writer follows the schema's order, in which only descriptive fields come after the events.
            if tag in (event_columns.EVENT_TAG, _LINE_ID, _LINE_NAME, _LINE_TIMESTAMP):
                raise file.input_error(f"the fields of line {self.name!r} are out of order")


class Plane(Struct, frozen=True, eq=False):
    """One device, one host, or one table of facts."""

    id: int
    name: str
    lines: tuple[Line, ...]
    event_names: Mapping[int, str]
    stat_names: Mapping[int, str]
    stats: Mapping[str, Value]
    _file: ProtoFile
    _metadata_spans: Mapping[int, tuple[int, int]]

    def event_texts(self, metadata_id: Ints) -> tuple[tuple[str, ...], Codes]:
        """Return the different names of these events, and each event's code into them."""
        ids, code = distinct_with_codes(metadata_id)
        return tuple(self.event_names.get(i, "") for i in ids.tolist()), code

    def wanted_ids(self, wanted: Callable[[str], bool]) -> Bools | None:
        """Return which metadata ids have a wanted name, as ``Line.events`` expects; None if the ids are too large."""
        most = max(self.event_names, default=0)
        if most > MAX_TABLE_ID or min(self.event_names, default=0) < 0:
            return None  # ids in a TPU's planes are hashes
        found = np.zeros(most + 1, dtype=bool)
        found[[i for i, text in self.event_names.items() if wanted(text)]] = True
        return found

    def metadata_stats(self, wanted: Collection[str]) -> dict[int, dict[str, Value]]:
        """Return the named statistics of each event name; they hold for every event of that name."""
        found = {}
        for key, span in self._metadata_spans.items():
            spans = ((start, stop) for tag, start, stop in self._file.fields(*span) if tag == METADATA_STATS)
            stats = _parse_stats(self._file, spans, self.stat_names, wanted)
            if stats:
                found[key] = stats
        return found


class Space(Struct, frozen=True):
    """A profile: what one or several hosts recorded in one window."""

    planes: tuple[Plane, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    hostnames: tuple[str, ...]
    origin_ns: int  # the earliest start of a line, in the file's own clock; Events.start_ps count from it


# ---- the skeleton ---------------------------------------------------------------------------------------------

PLANES_TAG, _NOTE_TAGS = field_tag(1), {field_tag(2): "errors", field_tag(3): "warnings", field_tag(4): "hostnames"}
_PLANE_ID, _PLANE_NAME, PLANE_LINES = field_tag(1, VARINT), field_tag(2), field_tag(3)
PLANE_EVENT_METADATA, PLANE_STAT_METADATA, PLANE_STATS = field_tag(4), field_tag(5), field_tag(6)
_KEY, _ENTRY = field_tag(1, VARINT), field_tag(2)  # of an entry of a protobuf map
_METADATA_NAME, METADATA_STATS = field_tag(2), field_tag(5)


def _parse_line(file: ProtoFile, start: int, end: int, stat_names: StatNames) -> Line:
    id_, name, timestamp_ns = 0, "", 0
    pos = start
    for tag, value, stop in file.fields(start, end):
        if tag == event_columns.EVENT_TAG:
            break
        if tag == _LINE_ID:
            id_ = to_signed(value)
        elif tag == _LINE_NAME:
            name = file.text(value, stop)
        elif tag == _LINE_TIMESTAMP:
            timestamp_ns = to_signed(value)
        pos = stop
    file.lines += 1
    if file.lines > MAX_LINES:
        raise file.input_error(f"more than {MAX_LINES} lines")
    return Line(id_, name, timestamp_ns, file, (pos, end), stat_names)


def _parse_stats(
    file: ProtoFile, spans: Iterator[tuple[int, int]], names: Mapping[int, str], wanted: Collection[str] | None = None
) -> dict[str, Value]:
    """Return the statistics outside the events, decoded one by one."""
    found: dict[str, Value] = {}
    for span in spans:
        name, value = "", None
        for tag, raw, stop in file.fields(*span):
            if tag == STAT_ID:
                name = names.get(to_signed(raw), "")
            elif tag == STAT_DOUBLE:
                value = struct.unpack("<d", raw.to_bytes(8, "little"))[0]
            elif tag == STAT_UINT:
                value = raw
            elif tag == STAT_INT:
                value = to_signed(raw)
            elif tag == STAT_REF:
                value = names.get(to_signed(raw), "")
            elif tag in (STAT_TEXT, STAT_BYTES) and (wanted is None or name in wanted):
                value = file.text(raw, stop) if tag == STAT_TEXT else bytes(file.data[raw:stop])
        if value is not None and (wanted is None or name in wanted):
            found[name] = value
    return found


def map_entry(file: ProtoFile, start: int, end: int) -> tuple[int, tuple[int, int] | None]:
    """Return the key and the value's position of an entry of a protobuf map."""
    key, place = 0, None
    for tag, value, stop in file.fields(start, end):
        if tag == _KEY:
            key = to_signed(value)
        elif tag == _ENTRY:
            place = (value, stop)
    return key, place


class _Tables(Struct, frozen=True):
    """A plane's names. For equal keys the later entry counts, as in every protobuf runtime."""

    events: dict[int, str] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    stats: StatNames = field(default_factory=StatNames)

    def add_stat(self, file: ProtoFile, start: int, end: int) -> None:
        key, place = map_entry(file, start, end)
        self.stats[key] = ""
        for tag, at, until in file.fields(*place) if place else ():
            if tag == _METADATA_NAME:
                self.stats[key] = file.text(at, until)

    def add_event(self, file: ProtoFile, start: int, end: int) -> None:
        key, place = map_entry(file, start, end)
        self.events[key] = ""
        self.spans.pop(key, None)
        for tag, at, until in file.fields(*place) if place else ():
            if tag == _METADATA_NAME:
                self.events[key] = file.text(at, until)
            elif tag == METADATA_STATS and place:
                self.spans[key] = place


def _parse_plane(file: ProtoFile, start: int, end: int) -> Plane:
    id_, name = 0, ""
    lines: list[Line] = []
    tables = _Tables()
    stats: list[tuple[int, int]] = []
    for tag, value, stop in file.fields(start, end):
        if tag == _PLANE_ID:
            id_ = to_signed(value)
        elif tag == _PLANE_NAME:
            name = file.text(value, stop)
        elif tag == PLANE_LINES:
            lines.append(_parse_line(file, value, stop, tables.stats))
        elif tag == PLANE_STATS:
            stats.append((value, stop))
        elif tag == PLANE_EVENT_METADATA:
            tables.add_event(file, value, stop)
        elif tag == PLANE_STAT_METADATA:
            tables.add_stat(file, value, stop)
    return Plane(id_, name, tuple(lines), tables.events, tables.stats,
                 _parse_stats(file, iter(stats), tables.stats), file, tables.spans)  # fmt: skip


def parse_space(data: bytes | mmap.mmap, label: str = "profile") -> Space:
    """Parse a profile from bytes; ``label`` names it in messages. Raises ``InputError``."""
    file = ProtoFile(data, label)
    planes: list[Plane] = []
    notes: dict[str, list[str]] = {"errors": [], "warnings": [], "hostnames": []}
    for tag, value, stop in file.fields(0, len(data)):
        if tag == PLANES_TAG:
            planes.append(_parse_plane(file, value, stop))
        elif tag in _NOTE_TAGS:
            notes[_NOTE_TAGS[tag]].append(file.text(value, stop))
    if not any(plane.name for plane in planes):
        raise file.input_error("it holds no named plane; it may be a protobuf of another kind")
    starts = [line.timestamp_ns for plane in planes for line in plane.lines if line._span[0] < line._span[1]]
    file.origin_ns = min(starts, default=0)
    errors, warnings, hostnames = (tuple(notes[note]) for note in ("errors", "warnings", "hostnames"))
    return Space(tuple(planes), errors, warnings, hostnames, file.origin_ns)


def read_space(path: str | Path) -> Space:
    """Read a profile from a file, plain or gzipped. Raises ``InputError``."""
    data = profile_files.profile_bytes(path)
    try:
        return parse_space(data, str(path))
    except InputError as error:
        kind = profile_files.likely_file_kind(data[: profile_files.FILE_HEAD_BYTES], Path(path).name)
        if kind is None:
            raise
        raise profile_files.profile_error(path, f"it seems to be {kind}; {profile_files.WANTED_HINT}") from error
