"""The events of a line (``XEvent``) as columns, decoded in a few gathers over all events at once.

Writers put an event's fields in the order of their numbers: metadata id, offset, duration (if any), statistics.
Events in another order go through ``wire.rounds``, field by field.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from slowtrain.profile.format.stat_columns import StatColumn, gather_stats
from slowtrain.profile.format.wire_format import (
    VARINT,
    Bools,
    FieldRound,
    Ints,
    MessageRun,
    ProtoFile,
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
            if (these := found.only(tag)) is not None:
                column[rest[these.rows]] = these.value.view(np.int64)
                if tag == OFFSET_TAG:
                    placed[rest[these.rows]] = True
        if wanted and (these := found.only(EVENT_STATS)) is not None:
            with_stats.append(replace(these, rows=rest[these.rows]))
    # An event has either an offset or a number of occurrences; the latter comes after the statistics.
    if not wanted and not placed.all():
        rest = np.flatnonzero(~placed)
        for found in field_rounds(file, window, stretch.start[rest], stop[rest]):
            if (these := found.only(_OCCURRENCES)) is not None:
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
