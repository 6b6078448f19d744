"""The events of a line (``XEvent``) and their statistics (``XStat``) as columns, decoded in a few gathers at once.

Writers put an event's fields in the order of their numbers: metadata id, offset, duration (if any), statistics.
Events in another order go through ``wire_format.field_rounds``, field by field.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from slowtrain.columns.arrays import Bools, Ints, distinct_values
from slowtrain.profile.format.wire_format import (
    FIXED64,
    LEN,
    VARINT,
    ByteWindow,
    FieldRound,
    MessageRun,
    ProtoFile,
    Words,
    field_rounds,
    field_tag,
)

EVENT_TAG = field_tag(4)  # of a line
EVENT_ID_TAG, OFFSET_TAG, _DURATION = field_tag(1, VARINT), field_tag(2, VARINT), field_tag(3, VARINT)
EVENT_STATS, _OCCURRENCES = field_tag(4), field_tag(5, VARINT)
_COLUMNS = (EVENT_ID_TAG, OFFSET_TAG, _DURATION, _OCCURRENCES)


def with_wanted_names(stretch: MessageRun, names: Bools) -> MessageRun:
    """Return the events with a wanted name; all events unless each begins with its metadata id, as all writers do."""
    if not len(names) or not (stretch.window.bytes[stretch.start] == EVENT_ID_TAG).all():
        return stretch
    number, _ = stretch.window.varints(stretch.start + 1)
    found = names[np.minimum(number, np.uint64(len(names) - 1)).astype(np.int64)]
    keep = np.flatnonzero(found if number.max() < len(names) else found & (number < len(names)))
    return MessageRun(stretch.window, stretch.start[keep], stretch.stop[keep], stretch.edges)


def decode_events(file: ProtoFile, stretch: MessageRun, first_row: int, wanted: Collection[StatColumn]) -> list[Ints]:
    """Return the columns metadata_id, offset, duration and occurrences; statistics are added to ``wanted``."""
    window, stop = stretch.window, stretch.stop
    columns, rest_at, placed = _usual_columns(stretch)
    until = None if wanted else EVENT_STATS
    more = rest_at < stop
    if until is not None:
        more &= window.bytes[rest_at] != until
    with_stats: list[FieldRound] = []
    rest = np.flatnonzero(more)
    for found in field_rounds(file, window, rest_at[rest], stop[rest], until):
        for column, tag in zip(columns, _COLUMNS, strict=True):
            if (these := found.with_tag(tag)) is not None:
                column[rest[these.rows]] = these.value.view(np.int64)
                if tag == OFFSET_TAG:
                    placed[rest[these.rows]] = True
        if wanted and (these := found.with_tag(EVENT_STATS)) is not None:
            with_stats.append(replace(these, rows=rest[these.rows]))
    # An event has either an offset or a number of occurrences; the latter comes after the statistics.
    if not wanted and not placed.all():
        rest = np.flatnonzero(~placed)
        for found in field_rounds(file, window, stretch.start[rest], stop[rest]):
            if (these := found.with_tag(_OCCURRENCES)) is not None:
                columns[3][rest[these.rows]] = these.value.view(np.int64)
    if with_stats:
        gather_stats(file, window, with_stats, first_row, wanted)
    return columns


def _usual_columns(stretch: MessageRun) -> tuple[list[Ints], Ints, Bools]:
    """Return the columns of events in the usual order, where the rest of each begins, and which have an offset.

    For the other events the columns are 0 and the rest is the whole event.
    """
    window, start, stop = stretch.window, stretch.start, stretch.stop
    id_, used = window.varints(start + 1)
    at = start + 1 + used
    offset, used = window.varints(at + 1)
    usual = (window.bytes[start] == EVENT_ID_TAG) & (window.bytes[at] == OFFSET_TAG) & (used <= 10)
    at += used
    at += 1
    timed = (window.bytes[at] == _DURATION) & (at < stop)
    duration, used = window.varints(at + 1)
    if timed.all():
        at += used
        at += 1
    else:
        at += np.where(timed, used + 1, 0)
        duration[~timed] = 0
    usual &= (used <= 10) & (at <= stop)
    columns = [id_.view(np.int64), offset.view(np.int64), duration.view(np.int64), np.zeros(len(start), np.int64)]
    if not usual.all():
        odd = np.flatnonzero(~usual)
        at[odd] = start[odd]
        for column in columns:
            column[odd] = 0
    return columns, at, usual


class Stat(Struct, frozen=True):
    """One named statistic of a line's events, with a row for each event that has it, in order.

    A row is a number (``codes`` is -1) or a text (``texts[code]``). Integers are 64-bit patterns: an unsigned value
    above 2**63 becomes negative and so equals its signed counterpart, as link ids (``_p``, ``_c``) need.
    """

    events: int  # of the line, with or without this statistic
    rows: Ints
    numbers: Ints | NDArray[np.float64]
    codes: NDArray[np.int32]
    texts: tuple[str, ...]

    def per_event(self, missing: int | float) -> Ints | NDArray[np.float64]:
        """Return a number for every event; ``missing`` for events without the statistic."""
        column = np.full(self.events, missing, np.result_type(self.numbers.dtype, np.asarray(missing).dtype))
        numeric = self.codes < 0
        column[self.rows[numeric]] = self.numbers[numeric]
        return column

    def where(self, keep: Bools) -> Stat:
        """Return the statistic of the kept events."""
        mine = keep[self.rows]
        rows = (np.cumsum(keep) - 1)[self.rows[mine]]
        return Stat(int(keep.sum()), rows, self.numbers[mine], self.codes[mine], self.texts)

    def labels(self) -> NDArray[np.int32]:
        """Return a code into ``texts`` for every event, -1 for events without a text."""
        column = np.full(self.events, -1, np.int32)
        column[self.rows] = self.codes
        return column


class StatNames(dict[int, str]):
    """A plane's names of statistics. Complete only after the whole plane was read, because lines come first."""

    @cached_property
    def ids(self) -> dict[str, set[int]]:
        """The ids of each name; one name may have several."""
        found: dict[str, set[int]] = {}
        for id_, name in self.items():
            found.setdefault(name, set()).add(id_)
        return found


STAT_ID, STAT_DOUBLE, STAT_UINT, STAT_INT = (
    field_tag(1, VARINT),
    field_tag(2, FIXED64),
    field_tag(3, VARINT),
    field_tag(4, VARINT),
)
STAT_TEXT, STAT_BYTES, STAT_REF = field_tag(5), field_tag(6), field_tag(7, VARINT)


class StatColumn:
    """Collects one wanted statistic over the windows of a line."""

    def __init__(self, name: str, names: StatNames) -> None:
        self.ids, self._names = names.ids.get(name, set()), names
        self._rows: list[Ints] = []
        self._bits: list[Words] = []
        self._doubles: list[Bools] = []
        self._codes: list[NDArray[np.int32]] = []
        self._texts: dict[str, int] = {}

    def _code(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def add(self, window: ByteWindow, rows: Ints, kind: Ints, bits: Words, stop: Ints) -> None:
        codes = np.full(len(rows), -1, np.int32)
        refs = np.flatnonzero(kind == STAT_REF)
        if len(refs):
            different, which = np.unique(bits[refs], return_inverse=True)
            known = [self._code(self._names.get(int(ref), "")) for ref in different]
            codes[refs] = np.array(known, np.int32)[which]
        for at in np.flatnonzero((kind == STAT_TEXT) | (kind == STAT_BYTES)):
            codes[at] = self._code(window.bytes[int(bits[at]) : stop[at]].tobytes().decode("utf-8", "replace"))
        self._rows.append(rows)
        self._bits.append(bits)
        self._doubles.append(kind == STAT_DOUBLE)
        self._codes.append(codes)

    def build(self, events: int) -> Stat:
        def join_parts(parts: list[Any], kind: type) -> Any:
            return np.concatenate(parts) if parts else np.empty(0, kind)

        bits, doubles = join_parts(self._bits, np.uint64), join_parts(self._doubles, np.bool_)
        numbers = bits.view(np.int64)
        if doubles.any():
            numbers = np.where(doubles, bits.view(np.float64), numbers.astype(np.float64))
        return Stat(
            events, join_parts(self._rows, np.int64), numbers, join_parts(self._codes, np.int32), tuple(self._texts)
        )


def gather_stats(
    file: ProtoFile, window: ByteWindow, found_in: list[FieldRound], first_row: int, columns: Collection[StatColumn]
) -> None:
    """Decode the stats that ``found_in`` points to, and add each to its column."""
    rows = np.concatenate([found.rows for found in found_in])
    order = np.argsort(rows, kind="stable")
    start = np.concatenate([found.start for found in found_in])[order]
    stop = np.concatenate([found.stop for found in found_in])[order]
    rows = rows[order] + first_row
    name = np.zeros(len(rows), np.int64)
    kind, bits, end = np.zeros_like(name), np.zeros(len(rows), np.uint64), np.zeros_like(name)
    for found in field_rounds(file, window, start, stop):
        if (ids := found.with_tag(STAT_ID)) is not None:
            name[ids.rows] = ids.value.view(np.int64)
        for tag in (STAT_UINT, STAT_INT, STAT_REF, STAT_DOUBLE, STAT_TEXT, STAT_BYTES):
            if (these := found.with_tag(tag)) is None:
                continue
            value = these.value
            if tag == STAT_DOUBLE:
                value = window.words[these.start]
            elif tag & 7 == LEN:
                value = these.start.view(np.uint64)
            kind[these.rows], bits[these.rows], end[these.rows] = tag, value, these.stop
    present = distinct_values(name).tolist()  # only a few of many columns are present, and each search costs time
    for column in columns:
        mine = [id_ for id_ in present if id_ in column.ids]
        if not mine:
            continue
        own = np.flatnonzero((name == mine[0] if len(mine) == 1 else np.isin(name, mine)) & (kind > 0))
        if len(own):
            column.add(window, rows[own], kind[own], bits[own], end[own])
