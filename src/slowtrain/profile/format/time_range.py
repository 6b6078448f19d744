"""Cuts a profile down to a range of time; what is kept is copied byte for byte.

An event is kept if it **starts** in the range (start included, end excluded), however long it lasts. Therefore
adjacent ranges share no event, and together they contain all events. Removed are lines without a kept event, name
table entries that nothing kept refers to, and HLO programs of which no GPU kernel is kept. Kept are all other planes
with their facts, even without events (a silent device is a finding), and all fields that the schema here does not
know.

Entries that hold sums instead of single events (``Events.occurrences``) start at the start of their line. Planes and
lines get new length prefixes, because their lengths change. Memory depends on what is kept.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field

from slowtrain.columns.arrays import Bools, distinct_values
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.format.event_columns import EVENT_STATS, STAT_ID, STAT_REF
from slowtrain.profile.format.wire_format import (
    VARINT,
    MessageRun,
    ProtoFile,
    encode_varint,
    field_rounds,
    field_tag,
    to_signed,
)

_CHILD_TAG, _CHILDREN_TAG = field_tag(6, VARINT), field_tag(6)  # of an event's metadata: one id, or several packed


class KeptCount(Struct):
    """How many of how many were kept."""

    kept: int = 0
    of: int = 0

    def count(self, is_kept: bool | int, of: int = 1) -> None:
        self.kept += int(is_kept)
        self.of += of

    def __str__(self) -> str:
        return f"{self.kept:,} of {self.of:,}"


class ProfileCut(Struct):
    """A smaller profile, and what it kept of the larger one."""

    data: bytes = b""
    size: KeptCount = field(default_factory=KeptCount)  # bytes
    planes: KeptCount = field(default_factory=KeptCount)
    lines: KeptCount = field(default_factory=KeptCount)
    events: KeptCount = field(default_factory=KeptCount)
    names: KeptCount = field(default_factory=KeptCount)  # entries in the tables of event and statistic names
    starts_ps: tuple[int, int] | None = None  # first and last start of an event in the larger profile

    def extend(self, first_ps: int, last_ps: int) -> None:
        known = self.starts_ps or (first_ps, last_ps)
        self.starts_ps = min(known[0], first_ps), max(known[1], last_ps)


class _UsedIds(Struct):
    """The ids that the kept messages of a plane refer to."""

    events: set[int] = field(default_factory=set)
    stats: set[int] = field(default_factory=lambda: {0})  # an id of 0 is not written


def cut_profile(data: bytes | mmap.mmap, start_ps: int, end_ps: int, label: str = "profile") -> ProfileCut:
    """Keep the events that start in [start_ps, end_ps), in ps since ``Space.origin_ns``, as ``Events.start_ps``.

    Raises ``InputError`` if ``data`` is not a profile. The smaller profile's own origin may be later, because lines
    are removed.
    """
    space, file = xplane.parse_space(data, label), ProtoFile(data, label)
    found = ProfileCut()
    parts: list[bytes] = []
    planes = iter(space.planes)
    ran = _programs_in_range(space, start_ps, end_ps)
    for at, tag, value, stop in _fields_with_positions(file, 0, len(data)):
        if tag != xplane.PLANES_TAG:
            parts.append(data[at:stop])
            continue
        plane = next(planes)
        used = _UsedIds()
        if plane.name == framework_names.METADATA_PLANE:
            used.events |= {key for key, text in plane.event_names.items() if _program_number(text) in ran}
        wanted = plane.name != framework_names.METADATA_PLANE or bool(used.events)
        payload = _cut_plane(file, plane, (value, stop), (start_ps, end_ps), used, found)
        found.planes.count(wanted)
        if wanted:
            parts.append(_length_delimited(tag, payload))
    found.data = b"".join(parts)
    found.size.count(len(found.data), len(data))
    return found


def _programs_in_range(space: xplane.Space, start_ps: int, end_ps: int) -> set[int]:
    """Return the ids of the programs whose kernels start in the range on GPUs."""
    found: set[int] = set()
    for plane in space.planes:
        for line in plane.lines if plane.name.startswith(framework_names.GPU_PLANE) else ():
            events = line.events((framework_names.PROGRAM_ID,))
            inside = (events.start_ps >= start_ps) & (events.start_ps < end_ps)
            found.update(
                distinct_values(events.stats[framework_names.PROGRAM_ID].per_event(-1)[inside])
                .astype(np.int64)
                .tolist()
            )
    return found - {-1}


def _program_number(text: str) -> int | None:
    found = re.fullmatch(framework_names.PROGRAM_NAME, text)
    return int(found[1]) if found else None


def _cut_plane(
    file: ProtoFile,
    plane: xplane.Plane,
    span: tuple[int, int],
    range_ps: tuple[int, int],
    used: _UsedIds,
    found: ProfileCut,
) -> list[bytes]:
    """Return the plane's fields to keep. Takes several walks, because tables may come before what refers to them."""
    lines: dict[int, list[bytes]] = {}  # by position
    remaining = iter(plane.lines)
    for at, tag, value, stop in _fields_with_positions(file, *span):
        if tag == xplane.PLANE_LINES:
            cut_line = _cut_line(file, next(remaining), (value, stop), range_ps, used, found)
            found.lines.count(bool(cut_line))
            if cut_line:
                lines[at] = cut_line
        elif tag == xplane.PLANE_STATS:
            _collect_stat_names(file, value, stop, used)
    _collect_metadata(file, span, used)
    parts: list[bytes] = []
    for at, tag, value, stop in _fields_with_positions(file, *span):
        if tag == xplane.PLANE_LINES:
            if at in lines:
                parts.append(_length_delimited(tag, lines.pop(at)))
        elif tag in (xplane.PLANE_EVENT_METADATA, xplane.PLANE_STAT_METADATA):
            key, _ = xplane.map_entry(file, value, stop)
            wanted = key in (used.events if tag == xplane.PLANE_EVENT_METADATA else used.stats)
            found.names.count(wanted)
            if wanted:
                parts.append(file.data[at:stop])
        else:
            parts.append(file.data[at:stop])
    return parts


def _cut_line(
    file: ProtoFile,
    line: xplane.Line,
    span: tuple[int, int],
    range_ps: tuple[int, int],
    used: _UsedIds,
    found: ProfileCut,
) -> list[bytes]:
    """Return the line's fields to keep; empty if no event is kept."""
    parts: list[bytes] = []
    first = last = None
    for stretch in line.stretches():
        id_, start_ps, *_ = line.decode(stretch)
        inside = (start_ps >= range_ps[0]) & (start_ps < range_ps[1])
        count, edges = int(np.count_nonzero(inside)), stretch.edges
        found.events.count(count, len(inside))
        found.extend(int(start_ps.min()), int(start_ps.max()))
        if count:
            frames = file.array[edges[0] : edges[-1]]
            parts.append(frames[np.repeat(inside, np.diff(edges))].tobytes())
            used.events.update(distinct_values(id_[inside]).tolist())
            _collect_event_stats(file, stretch, inside, used)
        first, last = int(edges[0]) if first is None else first, int(edges[-1])
    if not parts or first is None or last is None:
        return []
    return [file.data[span[0] : first], *parts, file.data[last : span[1]]]


# ---- references ----------------------------------------------------------------------------------------


def _collect_event_stats(file: ProtoFile, stretch: MessageRun, inside: Bools, used: _UsedIds) -> None:
    """Collect the names of the kept events' statistics, and of their values that are names."""
    places = [
        (these.start, these.stop)
        for found in field_rounds(file, stretch.window, stretch.start[inside], stretch.stop[inside])
        if (these := found.with_tag(EVENT_STATS)) is not None
    ]
    if not places:
        return
    starts, stops = (np.concatenate(ends) for ends in zip(*places, strict=True))
    for found in field_rounds(file, stretch.window, starts, stops):
        for tag in (STAT_ID, STAT_REF):
            if (these := found.with_tag(tag)) is not None:
                used.stats.update(distinct_values(these.value.view(np.int64)).tolist())


def _collect_stat_names(file: ProtoFile, start: int, end: int, used: _UsedIds) -> None:
    used.stats.update(to_signed(value) for tag, value, _ in file.fields(start, end) if tag in (STAT_ID, STAT_REF))


def _collect_metadata(file: ProtoFile, span: tuple[int, int], used: _UsedIds) -> None:
    """Collect the children of the kept event names, and what the statistics of these names refer to."""
    children: dict[int, set[int]] = {}
    for key, place in _metadata_entries(file, span):
        for tag, value, stop in file.fields(*place):
            if tag == _CHILD_TAG:
                children.setdefault(key, set()).add(to_signed(value))
            elif tag == _CHILDREN_TAG:
                children.setdefault(key, set()).update(map(to_signed, file.packed_numbers(value, stop)))
    fresh = set(used.events)
    while fresh:
        fresh = {child for key in fresh for child in children.get(key, ())} - used.events
        used.events |= fresh
    for key, place in _metadata_entries(file, span):
        if key in used.events:
            for tag, value, stop in file.fields(*place):
                if tag == xplane.METADATA_STATS:
                    _collect_stat_names(file, value, stop, used)


def _metadata_entries(file: ProtoFile, span: tuple[int, int]) -> Iterator[tuple[int, tuple[int, int]]]:
    for tag, value, stop in file.fields(*span):
        if tag == xplane.PLANE_EVENT_METADATA:
            key, place = xplane.map_entry(file, value, stop)
            if place is not None:
                yield key, place


# ---- bytes ------------------------------------------------------------------------------------------------------


def _fields_with_positions(file: ProtoFile, pos: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields, each with its start including the tag."""
    for tag, value, stop in file.fields(pos, end):
        yield pos, tag, value, stop
        pos = stop


def _length_delimited(tag: int, parts: list[bytes]) -> bytes:
    """Return a length-delimited field."""
    return b"".join((encode_varint(tag), encode_varint(sum(map(len, parts))), *parts))
