"""Profiles (``*.xplane.pb``, TensorFlow's and JAX's XSpace) as columns, without TensorFlow and without protobuf.

``read`` walks only the skeleton: planes, tables of names, headers of lines. A line's events are decoded when
``Line.events`` asks for them, field k of all events at a time, into NumPy columns; no Python object stands for an
event. So memory follows what is kept, not the file, which is mapped and let go of again page by page.

Whatever the bytes say, time and memory are bounded and the answer is columns or one ``InputError``.
The schema is tsl/profiler/protobuf/xplane.proto; a field it lacks is skipped.
"""

from __future__ import annotations

import gzip
import mmap
import struct
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slowtrain.errors import InputError
from slowtrain.trace.names import EAGER_LOCAL, EAGER_RUN, HOST_PLANE, eager_op, graph_op

Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
Value: TypeAlias = "int | float | str | bytes"

WINDOW_BYTES = 1 << 20  # events decoded at a time: large enough to vectorise, small enough for the cache
MAX_SKELETON_FIELDS = 16_000_000  # of planes, names and headers in one file; real ones hold below a million
MAX_LINES = 100_000  # threads and streams in one file; real ones hold below ten thousand
MAX_MESSAGE_FIELDS = 1_000  # of one event or one stat; real ones hold below fifty
MAX_UNZIPPED_BYTES = 4 << 30
MAX_UNZIPPED_RATIO = 200  # real profiles shrink five- to twentyfold; a bomb a thousandfold
_TIME_LIMIT_PS = 1 << 62  # sums of two such times still fit 64 bits: 53 days

_VARINT, _FIXED64, _LEN, _FIXED32 = 0, 1, 2, 5  # wire types; groups (3, 4) do not occur in XSpace


def _tag(number: int, wire: int = _LEN) -> int:
    return number << 3 | wire


class _File:
    """The bytes of a profile, its name for messages, and a scalar walk over the fields of a message."""

    def __init__(self, data: bytes | mmap.mmap, label: str) -> None:
        self.data, self.label = data, label
        self.array: Bytes = np.frombuffer(data, np.uint8)
        self.origin_ns = 0  # set once every line's header is known
        self.lines = 0
        self._fields_left = MAX_SKELETON_FIELDS

    def bad(self, what: str) -> InputError:
        return InputError(f"{self.label}: not a readable profile: {what}")

    def _varint(self, pos: int, end: int) -> tuple[int, int]:
        data, value = self.data, 0
        for shift in range(0, 70, 7):
            if pos >= end:
                raise self.bad(f"a number is cut off at byte {pos}")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, pos
        raise self.bad(f"a number is longer than 64 bits before byte {pos}")

    def field(self, pos: int, end: int) -> tuple[int, int, int]:
        """(tag, value, next position); the value of a length-delimited field is where its payload begins."""
        tag, payload = self._varint(pos, end)
        wire = tag & 7
        if wire == _VARINT:
            value, stop = self._varint(payload, end)
        elif wire == _LEN:
            size, value = self._varint(payload, end)
            stop = value + size
        elif wire in (_FIXED64, _FIXED32):
            stop = payload + (8 if wire == _FIXED64 else 4)
            value = int.from_bytes(self.data[payload:stop], "little")
        else:
            raise self.bad(f"wire type {wire} at byte {pos}")
        if tag < 8:
            raise self.bad(f"a field 0 at byte {pos}")
        if stop > end:
            raise self.bad(f"the field at byte {pos} reaches beyond its message")
        return tag, value, stop

    def fields(self, pos: int, end: int) -> Iterator[tuple[int, int, int]]:
        while pos < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise self.bad(f"more than {MAX_SKELETON_FIELDS} fields outside the events")
            found = self.field(pos, end)
            yield found
            pos = found[2]

    def text(self, start: int, stop: int) -> str:
        return self.data[start:stop].decode("utf-8", "replace")

    def let_go(self, start: int, stop: int) -> None:
        """Tells the kernel that these pages of a mapped file need not stay in memory."""
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            start -= start % mmap.PAGESIZE
            self.data.madvise(mmap.MADV_DONTNEED, start, stop - start)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


# ---- many messages at once ------------------------------------------------------------------------------------


class _Window:
    """A stretch of bytes in which many numbers are decoded at a time."""

    def __init__(self, stretch: Bytes) -> None:
        self.size = len(stretch)
        self.bytes: Bytes = np.concatenate((stretch, np.zeros(32, np.uint8)))  # so that the last number can be loaded
        # The eight bytes from every position on, as one overlapping view: nothing is copied.
        self.words: Words = np.ndarray((self.size + 24,), np.dtype("<u8"), self.bytes, strides=(1,))

    def varints(self, at: Ints) -> tuple[Words, Ints]:
        """Values and lengths of the varints at these positions; length 11 says: malformed."""
        first = self.bytes[at]
        if not len(first) or first.max() < 0x80:
            return first.astype(np.uint64), np.ones(len(first), np.int64)
        word = self.words[at]
        stops = ~word & np.uint64(0x8080808080808080)
        stop = stops & (~stops + np.uint64(1))  # the lowest: the top bit of the varint's last byte
        # stop is 1 << 8k+7, so the product carries the constant's byte 7-k, which is k+1, to the top.
        size = (((stop >> np.uint64(7)) * np.uint64(0x0102030405060708)) >> np.uint64(56)).astype(np.int64)
        word &= (stop | (stop - np.uint64(1))) & np.uint64(0x7F7F7F7F7F7F7F7F)
        # Groups of 7 bits closed up to 14, 28, then 56.
        for low, high, shift in (
            (0x007F007F007F007F, 0x7F007F007F007F00, 1),
            (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
            (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
        ):
            word = (word & np.uint64(low)) | ((word & np.uint64(high)) >> np.uint64(shift))
        long = np.flatnonzero(stops == 0)
        if len(long):
            ninth = self.bytes[at[long] + 8].astype(np.uint64)
            tenth = np.where(ninth < 0x80, np.uint64(0), self.bytes[at[long] + 9].astype(np.uint64))
            word[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
            size[long] = np.where(ninth < 0x80, 9, np.where(tenth < 0x80, 10, 11))
        return word, size

    def run(self, tag: int) -> tuple[Ints, int]:
        """Where the unbroken run of ``tag`` fields from byte 0 on begins each field, and where the run stops.

        Each field's start follows from the one before, so the walk is sequential; but a field can begin only at a
        byte equal to the tag, a few percent of all. For those the next start is computed all at once, and the ones
        that hang on byte 0 are gathered by doubling: from the first n of the chain, n jumps lead to the next n.
        """
        candidates = np.flatnonzero(self.bytes[: self.size] == tag)
        count = len(candidates)
        size = self.bytes[candidates + 1].astype(np.int64)
        after = candidates + 2 + size
        long = np.flatnonzero(size > 0x7F)
        if len(long):
            value, used = self.varints(candidates[long] + 1)
            fits = (value <= self.size) & (used <= 10)
            after[long] = np.where(fits, candidates[long] + 1 + used + value.astype(np.int64), self.size + 1)
        rank = np.full(self.size + 2, count, np.int32)  # count: no field begins here
        rank[candidates] = np.arange(count, dtype=np.int32)
        jump = np.full(count + 1, count, np.int32)
        jump[:count] = rank[np.minimum(after, self.size + 1)]
        chain = np.zeros(min(1, count) if count and candidates[0] == 0 else 0, np.int32)
        while len(chain):
            ahead = jump[chain]
            inside = int(np.searchsorted(ahead, count))  # a chain ascends
            chain = np.concatenate((chain, ahead[:inside]))
            if inside < len(ahead):
                break
            jump = jump[jump]
        chain = chain[after[chain] <= self.size]  # the last one may be cut off by the window
        return candidates[chain], int(after[chain[-1]]) if len(chain) else 0


@dataclass(frozen=True)
class _Round:
    """The k-th field of every message that has one."""

    rows: Ints  # which message
    tag: Ints  # of a field number above 7, which the schemas of events and stats lack: only its wire type
    value: Words  # of a length-delimited field: the payload's length
    start: Ints  # of the payload
    stop: Ints
    tags: int  # the different tags as a set of bits

    def only(self, tag: int) -> _Round | None:
        if self.tags == 1 << tag:
            return self
        if not self.tags >> tag & 1:
            return None
        chosen = self.tag == tag
        return _Round(
            self.rows[chosen], self.tag[chosen], self.value[chosen], self.start[chosen], self.stop[chosen], 1 << tag
        )


def _tags(file: _File, window: _Window, at: Ints) -> tuple[Ints, Ints, int]:
    """Tags, where their fields' contents start, and the different ones as a set of bits."""
    tag: Ints = window.bytes[at].astype(np.int64)
    start = at + 1
    if tag.max() >= 64:
        values, used = window.varints(at)
        tag, start = values.view(np.int64), at + used
    if tag.min() < 8:
        raise file.bad("an event has a field 0")
    tag = np.where(tag < 64, tag, tag & 7)
    tags = int(np.bitwise_or.reduce(np.left_shift(1, tag)))
    return tag, start, tags


def _has_wire(tags: int, wire: int) -> bool:
    return bool(tags & (0x0101010101010101 << wire))


def _rounds(file: _File, window: _Window, start: Ints, stop: Ints) -> Iterator[_Round]:
    """Walks many messages in step."""
    rows: Ints = np.arange(len(start))
    for _ in range(MAX_MESSAGE_FIELDS):
        more = start < stop
        if not more.all():
            rows, start, stop = rows[more], start[more], stop[more]
        if not len(rows):
            return
        tag, content, tags = _tags(file, window, start)
        value, used = window.varints(content)
        if any(_has_wire(tags, wire) for wire in (3, 4, 6, 7)):
            raise file.bad("an event has a field of an unknown wire type")
        if fixed := _has_wire(tags, _FIXED64) or _has_wire(tags, _FIXED32):
            used = np.where(tag & 3 == 1, 0, used)
        if used.max(initial=0) > 10:
            raise file.bad("an event has a number longer than 64 bits")
        payload = content + used
        after = payload
        if _has_wire(tags, _LEN):
            size = np.where(tag & 7 == _LEN, value, np.uint64(0))
            if size.max() > window.size:
                raise file.bad("a field reaches beyond its event")
            after = after + size.astype(np.int64)
        if fixed:
            after = after + np.where(tag & 7 == _FIXED64, 8, 0) + np.where(tag & 7 == _FIXED32, 4, 0)
        if (after > stop).any():
            raise file.bad("a field reaches beyond its event")
        yield _Round(rows, tag, value, payload, after, tags)
        start = after
    raise file.bad(f"an event has more than {MAX_MESSAGE_FIELDS} fields")


# ---- statistics of events -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stat:
    """One named statistic of a line's events: a row for each event that carries it, in order.

    A row is a number (``codes`` is -1) or a text (``texts[code]``). Integers are 64-bit patterns: an unsigned one
    above 2**63 comes out negative, and so equals its signed twin, as flow ids (``_p``, ``_c``) need.
    """

    events: int  # of the line, with or without this statistic
    rows: Ints
    numbers: Ints | NDArray[np.float64]
    codes: NDArray[np.int32]
    texts: tuple[str, ...]

    def filled(self, missing: int | float) -> Ints | NDArray[np.float64]:
        """A number for every event."""
        column = np.full(self.events, missing, np.result_type(self.numbers.dtype, np.asarray(missing).dtype))
        numeric = self.codes < 0
        column[self.rows[numeric]] = self.numbers[numeric]
        return column

    def labels(self) -> NDArray[np.int32]:
        """A code into ``texts`` for every event, -1 where there is none."""
        column = np.full(self.events, -1, np.int32)
        column[self.rows] = self.codes
        return column


_STAT_ID, _STAT_DOUBLE, _STAT_UINT, _STAT_INT = _tag(1, _VARINT), _tag(2, _FIXED64), _tag(3, _VARINT), _tag(4, _VARINT)
_STAT_TEXT, _STAT_BYTES, _STAT_REF = _tag(5), _tag(6), _tag(7, _VARINT)


class _StatColumn:
    """Gathers one wanted statistic over the windows of a line."""

    def __init__(self, ids: list[int], names: Mapping[int, str]) -> None:
        self.ids, self._names = np.array(ids, np.int64), names
        self._rows: list[Ints] = []
        self._bits: list[Words] = []
        self._doubles: list[NDArray[np.bool_]] = []
        self._codes: list[NDArray[np.int32]] = []
        self._texts: dict[str, int] = {}

    def _code(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def add(self, window: _Window, rows: Ints, kind: Ints, bits: Words, stop: Ints) -> None:
        codes = np.full(len(rows), -1, np.int32)
        refs = np.flatnonzero(kind == _STAT_REF)
        if len(refs):
            different, which = np.unique(bits[refs], return_inverse=True)
            known = [self._code(self._names.get(int(ref), "")) for ref in different]
            codes[refs] = np.array(known, np.int32)[which]
        for at in np.flatnonzero((kind == _STAT_TEXT) | (kind == _STAT_BYTES)):
            codes[at] = self._code(window.bytes[int(bits[at]) : stop[at]].tobytes().decode("utf-8", "replace"))
        self._rows.append(rows)
        self._bits.append(bits)
        self._doubles.append(kind == _STAT_DOUBLE)
        self._codes.append(codes)

    def build(self, events: int) -> Stat:
        def joined(parts: list[Any], kind: type) -> Any:
            return np.concatenate(parts) if parts else np.empty(0, kind)

        bits, doubles = joined(self._bits, np.uint64), joined(self._doubles, np.bool_)
        numbers = bits.view(np.int64)
        if doubles.any():
            numbers = np.where(doubles, bits.view(np.float64), numbers.astype(np.float64))
        return Stat(events, joined(self._rows, np.int64), numbers, joined(self._codes, np.int32), tuple(self._texts))


def _gather_stats(
    file: _File, window: _Window, rounds: list[_Round], first_row: int, columns: Collection[_StatColumn]
) -> None:
    """Decodes the stats that ``rounds`` of events point at and hands each column its own."""
    rows = np.concatenate([found.rows for found in rounds])
    order = np.argsort(rows, kind="stable")
    start = np.concatenate([found.start for found in rounds])[order]
    stop = np.concatenate([found.stop for found in rounds])[order]
    rows = rows[order] + first_row
    name = np.zeros(len(rows), np.int64)
    kind, bits, end = np.zeros_like(name), np.zeros(len(rows), np.uint64), np.zeros_like(name)
    for found in _rounds(file, window, start, stop):
        if (ids := found.only(_STAT_ID)) is not None:
            name[ids.rows] = ids.value.view(np.int64)
        for tag in (_STAT_UINT, _STAT_INT, _STAT_REF, _STAT_DOUBLE, _STAT_TEXT, _STAT_BYTES):
            if (these := found.only(tag)) is None:
                continue
            value = these.value
            if tag == _STAT_DOUBLE:
                value = window.words[these.start]
            elif tag & 7 == _LEN:
                value = these.start.view(np.uint64)
            kind[these.rows], bits[these.rows], end[these.rows] = tag, value, these.stop
    for column in columns:
        own = np.flatnonzero(np.isin(name, column.ids) & (kind > 0))
        if len(own):
            column.add(window, rows[own], kind[own], bits[own], end[own])


# ---- what a profile holds -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Events:
    """The events of one line, in the file's order."""

    metadata_id: Ints  # into Plane.event_names
    start_ps: Ints  # since Space.origin_ns
    duration_ps: Ints
    occurrences: Ints | None  # where a profile holds sums instead of single events; those start at their line's start
    stats: Mapping[str, Stat]  # the ones asked for

    def __len__(self) -> int:
        return len(self.metadata_id)


_EVENTS = _tag(4)
_EVENT_ID, _EVENT_OFFSET, _EVENT_DURATION = _tag(1, _VARINT), _tag(2, _VARINT), _tag(3, _VARINT)
_EVENT_STATS, _EVENT_OCCURRENCES = _tag(4), _tag(5, _VARINT)
_EVENT_COLUMNS = (_EVENT_ID, _EVENT_OFFSET, _EVENT_DURATION, _EVENT_OCCURRENCES)
_LINE_ID, _LINE_NAME, _LINE_TIMESTAMP = _tag(1, _VARINT), _tag(2), _tag(3, _VARINT)


@dataclass(frozen=True)
class Line:
    """One thread of the host or one stream of a device."""

    id: int
    name: str
    timestamp_ns: int  # its events' offsets count from here
    _file: _File = field(repr=False, compare=False)
    _span: tuple[int, int] = field(repr=False, compare=False)  # bytes from its first event to its end
    _stat_names: Mapping[int, str] = field(repr=False, compare=False)

    def events(self, stats: Collection[str] = ()) -> Events:
        """Decodes the events, with those of the named statistics."""
        wanted = {stat: _StatColumn([i for i, name in self._stat_names.items() if name == stat], self._stat_names)
                  for stat in stats}  # fmt: skip
        base_ps = (self.timestamp_ns - self._file.origin_ns) * 1000
        gathered: dict[int, list[Ints]] = {tag: [] for tag in _EVENT_COLUMNS}
        count = 0
        for window, start, stop in self._windows():
            columns = self._decode(window, start, stop, count, wanted.values())
            times = columns[1:3]
            if abs(base_ps) >= _TIME_LIMIT_PS or (times >= _TIME_LIMIT_PS).any() or (times <= -_TIME_LIMIT_PS).any():
                raise self._file.bad(f"an event of line {self.name!r} lies more than {_TIME_LIMIT_PS} ps away")
            columns[1] += base_ps
            for parts, column in zip(gathered.values(), columns, strict=True):
                parts.append(column)
            count += len(start)
        # One column at a time, so that the parts of only one are held twice.
        id_, start_ps, duration_ps, occurrences = (
            np.concatenate(gathered.pop(tag)) if count else np.empty(0, np.int64) for tag in list(gathered)
        )
        return Events(id_, start_ps, duration_ps, occurrences if occurrences.any() else None,
                      {stat: column.build(count) for stat, column in wanted.items()})  # fmt: skip

    def _decode(
        self, window: _Window, start: Ints, stop: Ints, first_row: int, wanted: Collection[_StatColumn]
    ) -> Ints:
        columns = np.zeros((len(_EVENT_COLUMNS), len(start)), np.int64)
        with_stats: list[_Round] = []
        for found in _rounds(self._file, window, start, stop):
            for column, tag in zip(columns, _EVENT_COLUMNS, strict=True):
                if (these := found.only(tag)) is not None:
                    column[these.rows] = these.value.view(np.int64)
            if wanted and (these := found.only(_EVENT_STATS)) is not None:
                with_stats.append(these)
        if with_stats:
            _gather_stats(self._file, window, with_stats, first_row, wanted)
        return columns

    def _windows(self) -> Iterator[tuple[_Window, Ints, Ints]]:
        """Stretches of whole events, with where in the stretch each event's payload begins and ends."""
        file, (pos, end) = self._file, self._span
        while pos < end:
            tag, payload, stop = file.field(pos, end)
            if tag != _EVENTS:
                break
            window = _Window(file.array[pos : min(end, pos + WINDOW_BYTES)])
            starts, used = window.run(_EVENTS)
            if used:
                sizes, lengths = window.varints(starts + 1)
                starts = starts + 1 + lengths
                yield window, starts, starts + sizes.astype(np.int64)
            else:  # a single event larger than a window
                used = stop - pos
                yield _Window(file.array[payload:stop]), np.zeros(1, np.int64), np.array([stop - payload])
            file.let_go(pos, pos + used)
            pos += used
        for tag, _, _ in file.fields(pos, end):
            # Every writer keeps the order of the schema, in which only descriptive fields follow the events.
            if tag in (_EVENTS, _LINE_ID, _LINE_NAME, _LINE_TIMESTAMP):
                raise file.bad(f"the fields of line {self.name!r} are out of order")


@dataclass(frozen=True)
class Plane:
    """One device, one host, or one table of facts."""

    id: int
    name: str
    lines: tuple[Line, ...]
    event_names: Mapping[int, str]
    display_names: Mapping[int, str]  # of the events that have one: an op's type, an HLO instruction
    stat_names: Mapping[int, str]
    stats: Mapping[str, Value]
    _file: _File = field(repr=False, compare=False)
    _metadata_spans: Mapping[int, tuple[int, int]] = field(repr=False, compare=False)

    def metadata_stats(self, wanted: Collection[str]) -> dict[int, dict[str, Value]]:
        """The named statistics that stand with the events' names and hold for every event of that name."""
        found = {}
        for key, span in self._metadata_spans.items():
            spans = ((start, stop) for tag, start, stop in self._file.fields(*span) if tag == _METADATA_STATS)
            stats = _stats(self._file, spans, self.stat_names, wanted)
            if stats:
                found[key] = stats
        return found


@dataclass(frozen=True)
class Space:
    """A profile: what one or several hosts recorded in one window."""

    planes: tuple[Plane, ...]
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    hostnames: tuple[str, ...]
    origin_ns: int  # the earliest start of a line, in the file's own clock; Events.start_ps count from it


# ---- the skeleton ---------------------------------------------------------------------------------------------

_PLANES, _NOTES = _tag(1), {_tag(2): "errors", _tag(3): "warnings", _tag(4): "hostnames"}
_PLANE_ID, _PLANE_NAME, _PLANE_LINES = _tag(1, _VARINT), _tag(2), _tag(3)
_PLANE_EVENT_METADATA, _PLANE_STAT_METADATA, _PLANE_STATS = _tag(4), _tag(5), _tag(6)
_KEY, _ENTRY = _tag(1, _VARINT), _tag(2)  # of an entry of a protobuf map
_METADATA_ID, _METADATA_NAME, _METADATA_DISPLAY, _METADATA_STATS = _tag(1, _VARINT), _tag(2), _tag(4), _tag(5)


def _line(file: _File, start: int, end: int, stat_names: Mapping[int, str]) -> Line:
    id_, name, timestamp_ns = 0, "", 0
    pos = start
    for tag, value, stop in file.fields(start, end):
        if tag == _EVENTS:
            break
        if tag == _LINE_ID:
            id_ = _signed(value)
        elif tag == _LINE_NAME:
            name = file.text(value, stop)
        elif tag == _LINE_TIMESTAMP:
            timestamp_ns = _signed(value)
        pos = stop
    file.lines += 1
    if file.lines > MAX_LINES:
        raise file.bad(f"more than {MAX_LINES} lines")
    return Line(id_, name, timestamp_ns, file, (pos, end), stat_names)


def _stats(
    file: _File, spans: Iterator[tuple[int, int]], names: Mapping[int, str], wanted: Collection[str] | None = None
) -> dict[str, Value]:
    """Stats outside the events, one by one."""
    found: dict[str, Value] = {}
    for span in spans:
        name, value = "", None
        for tag, raw, stop in file.fields(*span):
            if tag == _STAT_ID:
                name = names.get(_signed(raw), "")
            elif tag == _STAT_DOUBLE:
                value = struct.unpack("<d", raw.to_bytes(8, "little"))[0]
            elif tag == _STAT_UINT:
                value = raw
            elif tag == _STAT_INT:
                value = _signed(raw)
            elif tag == _STAT_REF:
                value = names.get(_signed(raw), "")
            elif tag in (_STAT_TEXT, _STAT_BYTES) and (wanted is None or name in wanted):
                value = file.text(raw, stop) if tag == _STAT_TEXT else bytes(file.data[raw:stop])
        if value is not None and (wanted is None or name in wanted):
            found[name] = value
    return found


def _entry(file: _File, start: int, end: int) -> tuple[int, tuple[int, int] | None]:
    """Key and the value's place of a protobuf map's entry."""
    key, place = 0, None
    for tag, value, stop in file.fields(start, end):
        if tag == _KEY:
            key = _signed(value)
        elif tag == _ENTRY:
            place = (value, stop)
    return key, place


def _plane(file: _File, start: int, end: int) -> Plane:
    id_, plane_name = 0, ""
    lines: list[Line] = []
    events: dict[int, str] = {}
    displays: dict[int, str] = {}
    stat_names: dict[int, str] = {}  # completed after the lines that refer to it: it stands behind them in the file
    stats: list[tuple[int, int]] = []
    spans: dict[int, tuple[int, int]] = {}
    for tag, value, stop in file.fields(start, end):
        if tag == _PLANE_ID:
            id_ = _signed(value)
        elif tag == _PLANE_NAME:
            plane_name = file.text(value, stop)
        elif tag == _PLANE_LINES:
            lines.append(_line(file, value, stop, stat_names))
        elif tag == _PLANE_STATS:
            stats.append((value, stop))
        elif tag in (_PLANE_EVENT_METADATA, _PLANE_STAT_METADATA):
            key, place = _entry(file, value, stop)
            names = events if tag == _PLANE_EVENT_METADATA else stat_names
            names[key] = ""
            displays.pop(key, None)  # of two entries with one key the later one holds, as in every protobuf runtime
            spans.pop(key, None)
            for inner, at, until in file.fields(*place) if place else ():
                if inner == _METADATA_NAME:
                    names[key] = file.text(at, until)
                elif names is stat_names or place is None:
                    continue
                elif inner == _METADATA_DISPLAY:
                    displays[key] = file.text(at, until)
                elif inner == _METADATA_STATS:
                    spans[key] = place
    return Plane(id_, plane_name, tuple(lines), events, displays, stat_names,
                 _stats(file, iter(stats), stat_names), file, spans)  # fmt: skip


def parse(data: bytes | mmap.mmap, label: str = "profile") -> Space:
    """A profile from bytes at hand; ``label`` names it in messages."""
    file = _File(data, label)
    planes: list[Plane] = []
    notes: dict[str, list[str]] = {"errors": [], "warnings": [], "hostnames": []}
    for tag, value, stop in file.fields(0, len(data)):
        if tag == _PLANES:
            planes.append(_plane(file, value, stop))
        elif tag in _NOTES:
            notes[_NOTES[tag]].append(file.text(value, stop))
    if not any(plane.name for plane in planes):
        raise file.bad("it holds no named plane; perhaps it is a protobuf of another kind")
    starts = [line.timestamp_ns for plane in planes for line in plane.lines if line._span[0] < line._span[1]]
    file.origin_ns = min(starts, default=0)
    errors, warnings, hostnames = (tuple(notes[note]) for note in ("errors", "warnings", "hostnames"))
    return Space(tuple(planes), errors, warnings, hostnames, file.origin_ns)


def read(path: str | Path) -> Space:
    """A profile from a file, plain or gzipped."""
    try:
        with Path(path).open("rb") as stored:
            magic = stored.read(2)
            if not magic:
                raise InputError(f"{path}: not a readable profile: the file is empty")
            if magic != b"\x1f\x8b":  # no XSpace begins so
                return parse(mmap.mmap(stored.fileno(), 0, access=mmap.ACCESS_READ), str(path))
        with gzip.open(path) as zipped, tempfile.TemporaryFile() as plain:
            limit = min(MAX_UNZIPPED_BYTES, max(1 << 26, MAX_UNZIPPED_RATIO * Path(path).stat().st_size))
            while part := zipped.read(1 << 20):
                plain.write(part)
                if plain.tell() > limit:
                    raise InputError(f"{path}: not a readable profile: it unzips to more than {limit >> 20} MiB")
            plain.flush()
            if not plain.tell():
                raise InputError(f"{path}: not a readable profile: the file is empty")
            return parse(mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ), str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: not a readable profile: broken gzip data: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


# ---- ops ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ops:
    """Executions of kernels by the host's processor, as columns."""

    op: NDArray[np.int32]  # into names and types
    thread: NDArray[np.int32]  # into threads
    start_ps: Ints  # since Space.origin_ns
    duration_ps: Ints
    names: tuple[str, ...]
    types: tuple[str, ...]
    threads: tuple[str, ...]


def _eager_runs(events: Events, names: Mapping[int, str]) -> tuple[Ints, list[str]]:
    """The kernels of eager ops (their rows), each with its op type, which only the enclosing span knows."""
    run_ids = [i for i, name in names.items() if name == EAGER_RUN]
    local_ids = [i for i, name in names.items() if name.startswith(EAGER_LOCAL)]
    runs = np.flatnonzero(np.isin(events.metadata_id, run_ids))
    local = np.flatnonzero(np.isin(events.metadata_id, local_ids))
    if not len(runs) or not len(local):
        return np.empty(0, np.int64), []
    local = local[np.argsort(events.start_ps[local], kind="stable")]
    # The one that began last before the kernel: calls on one thread nest, and none begins between the two.
    around = np.searchsorted(events.start_ps[local], events.start_ps[runs], side="right") - 1
    kinds = [eager_op(names[int(events.metadata_id[local[at]])]) if at >= 0 else None for at in around]
    kept = [row for row, kind in zip(runs, kinds, strict=True) if kind]
    return np.array(kept, np.int64), [kind for kind in kinds if kind]


def ops(space: Space) -> Ops:
    """Kernels that ran on the host: of graphs (also those in tf.data's functions; see the thread) and of eager ops."""
    table: dict[tuple[str, str], int] = {}
    threads: list[str] = []
    parts: list[tuple[NDArray[np.int32], NDArray[np.int32], Ints, Ints]] = []
    for plane in (plane for plane in space.planes if plane.name == HOST_PLANE):
        known = {i: op for i, name in plane.event_names.items() if (op := graph_op(name))}
        for line in plane.lines:
            events = line.events()
            different, which = np.unique(events.metadata_id, return_inverse=True)
            code = np.array([table.setdefault(known[i], len(table)) if i in known else -1 for i in different.tolist()],
                            np.int32)[which]  # fmt: skip
            eager, kinds = _eager_runs(events, plane.event_names)
            code[eager] = [table.setdefault((kind, kind), len(table)) for kind in kinds]
            rows = np.flatnonzero(code >= 0)
            if len(rows):
                thread = np.full(len(rows), len(threads), np.int32)
                threads.append(line.name)
                parts.append((code[rows], thread, events.start_ps[rows], events.duration_ps[rows]))
    empty = (np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))
    code, thread, start_ps, duration_ps = (np.concatenate(column) for column in zip(empty, *parts, strict=True))
    return Ops(code, thread, start_ps, duration_ps,
               tuple(name for name, _ in table), tuple(kind for _, kind in table), tuple(threads))  # fmt: skip
