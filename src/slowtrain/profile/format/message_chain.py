"""Finds where each message of a long run begins; the run is a chain of lengths, followed from many places at once.

A lane starts every few thousand bytes, at a byte that looks like a field's tag, a few fields further on. By then a
wrong guess has nearly always met the true chain. All lanes jump from field to field in step and mark their positions.
Afterwards the marks are checked: the true chain begins at byte 0, and each of its marks leads to the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slowtrain.columns.arrays import Ints, distinct_values

Bytes = NDArray[np.uint8]

BYTES_PER_LANE = 65 * 64  # an odd number of cache lines, because all lanes would otherwise use the same few cache sets
MAX_LOOK_BYTES = 192  # searched from a lane's border for a byte that looks like a field
TRIES_PER_LANE = 4  # candidate bytes per lane
FIELDS_TO_SKIP = 16  # fields skipped before the lane begins: statistics in an event look like events, but are fewer
MAX_LANE_STEPS = 1024  # of all lanes in parallel; real events take a quarter of them
STEPS_PER_CHECK = 8  # steps between two checks of which lanes have reached the start of the next lane
LEAP_DOUBLINGS = 5  # doublings of a jump: leaps of 32 fields
MAX_ONE_BYTE_LENGTH = 0x7F  # largest length that takes one byte


def run_starts(data: Bytes, size: int, tag: int, first: int) -> tuple[Ints, int] | None:
    """Return where each field of the unbroken run of ``tag`` fields from byte 0 begins, and where the run ends.

    ``data`` has padding zeros after its ``size`` bytes. Most payloads begin with the byte ``first``. A field cut off
    by the end of the data is not included. None if too many guesses failed.
    """
    if size < 4 * BYTES_PER_LANE or data[0] != tag:
        return None
    lanes = _lane_starts(data, size, tag, first)
    if 2 * BYTES_PER_LANE * len(lanes) < size or (marks := _walk_lanes(data, size, lanes)) is None:
        return None
    if not (tagged := data.take(marks) == tag).all():
        marks = marks[tagged]
    leads_to = field_ends(data, size, marks)
    if (leads_to[:-1] != marks[1:]).any():
        found = follow_chain(marks, leads_to, size)
        marks, leads_to = marks[found], leads_to[found]
    stop = int(leads_to[-1])
    if stop > size:
        return marks[:-1], int(marks[-1])
    return None if stop < size and data[stop] == tag else (marks, stop)


def find_field(data: Bytes, size: int, tag: int, first: int) -> tuple[int, float] | None:
    """Return a field of the run that these bytes are from the middle of, and the mean length of fields there."""
    likely = (data[:size] == tag) & ((data[2 : size + 2] == first) | (data[3 : size + 3] == first))
    for at in np.flatnonzero(likely)[:TRIES_PER_LANE]:
        found = pos = _skip_fields(data, size, np.array([at]))
        pos = _skip_fields(data, size, found)
        if pos[0] < size and (data[[found[0], pos[0]]] == tag).all():
            return int(found[0]), float(pos[0] - found[0]) / FIELDS_TO_SKIP
    return None


def _skip_fields(data: Bytes, size: int, pos: Ints) -> Ints:
    """Skip a fixed number of fields."""
    for _ in range(FIELDS_TO_SKIP):
        pos = field_ends(data, size, pos)
    return pos


def follow_chain(places: Ints, leads_to: Ints, size: int) -> NDArray[np.int32]:
    """Return which of the ascending places lie on the chain that begins at the first one."""
    end = len(places)
    rank = np.full(size + 2, end, np.int32)  # this value means: no place
    rank[places] = np.arange(end, dtype=np.int32)
    jump = np.append(rank[leads_to], np.int32(end))
    leap = jump
    for _ in range(LEAP_DOUBLINGS):
        leap = leap[leap]
    stations = [0]
    while (ahead := int(leap[stations[-1]])) < end:
        stations.append(ahead)
    rows = [np.array(stations, np.int32)]
    for _ in range((1 << LEAP_DOUBLINGS) - 1):
        rows.append(jump[rows[-1]])
    chain = np.stack(rows, axis=1).ravel()
    return chain[: int(np.searchsorted(chain, np.int32(end)))]  # a chain ascends


def _lane_starts(data: Bytes, size: int, tag: int, first: int) -> Ints:
    """Return the ascending positions at which lanes start: likely fields of the run; the first one is byte 0."""
    count = size // BYTES_PER_LANE
    near = data[: count * BYTES_PER_LANE].reshape(count, BYTES_PER_LANE)[1:, : MAX_LOOK_BYTES + 3]
    likely = near[:, :-3] == tag
    likely &= (near[:, 2:-1] == first) | (near[:, 3:] == first)
    border = np.arange(1, count) * BYTES_PER_LANE
    found = [np.zeros(1, np.int64)]
    for _ in range(TRIES_PER_LANE):
        at = likely.argmax(axis=1)
        there = np.flatnonzero(likely[np.arange(len(at)), at])
        likely, border, at = likely[there], border[there], at[there]
        if not len(at):
            break
        likely[np.arange(len(at)), at] = False
        pos = _skip_fields(data, size, border + at)
        good = (data[pos] == tag) & ((data[pos + 2] == first) | (data[pos + 3] == first)) & (pos < size)
        found.append(pos[good])
        likely, border = likely[~good], border[~good]
    return distinct_values(np.concatenate(found))


def _walk_lanes(data: Bytes, size: int, lanes: Ints) -> Ints | None:
    """Return all positions that the lanes visit, in order; None if that takes too many steps."""
    marked = np.zeros(size + 2, dtype=bool)
    pos, end = lanes, np.append(lanes[1:], size)
    for _ in range(MAX_LANE_STEPS // STEPS_PER_CHECK):
        for _ in range(STEPS_PER_CHECK):
            marked[pos] = True
            pos = field_ends(data, size, pos)
        going = np.flatnonzero(pos < end)
        if not len(going):
            return np.flatnonzero(marked[:size])
        if 4 * len(going) < 3 * len(pos):
            pos, end = pos[going], end[going]
    return None


def field_ends(data: Bytes, size: int, pos: Ints) -> Ints:
    """Return where the fields at these places end; ``size + 1`` if a field is cut off or malformed."""
    length = data[1:].take(pos)
    found = pos + length
    found += 2
    if length.max(initial=0) > MAX_ONE_BYTE_LENGTH:
        long = np.flatnonzero(length > MAX_ONE_BYTE_LENGTH)
        found[long] = _long_field_ends(data, size, pos[long])
    np.minimum(found, size + 1, out=found)
    return found


def _long_field_ends(data: Bytes, size: int, pos: Ints) -> Ints:
    """The same for lengths of more than one byte; more than five bytes are malformed."""
    length = np.zeros(len(pos), np.int64)
    more = np.ones(len(pos), dtype=bool)
    at = pos + 1
    for shift in range(0, 35, 7):
        byte = data[np.minimum(at, size + 8)].astype(np.int64)
        length += np.where(more, (byte & MAX_ONE_BYTE_LENGTH) << shift, 0)
        at += more
        more &= byte > MAX_ONE_BYTE_LENGTH
        if not more.any():
            break
    return np.asarray(np.where(more, size + 1, at + length))
