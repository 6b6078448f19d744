"""Makes a profile of any size from a small one: its events again and again, later each time, under the same names.

    python clinic/repeated.py small.xplane.pb large.xplane.pb --megabytes 250

Lines stay what they are and only get longer, as in a longer recording. Ids that tie events together (flows, steps,
elements of tf.data) are moved on with each repetition, or all repetitions would be tied into one.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from slowtrain.profile import framework_names
from slowtrain.profile.format import event_columns, xplane
from slowtrain.profile.format.event_columns import STAT_ID, STAT_INT, STAT_UINT
from slowtrain.profile.format.time_range import encode_varint
from slowtrain.profile.format.wire_format import VARINT, ProtoFile, field_tag, to_signed

EVENT, OFFSET, EVENT_STAT = field_tag(4), field_tag(2, VARINT), event_columns.EVENT_STATS
TIES = frozenset({
    "_p", "_c", framework_names.STEP_NUM, framework_names.ELEMENT_ID,
    framework_names.PARENT_ID, framework_names.NODE_ID,
    framework_names.CORRELATION_ID, framework_names.GROUP_ID, "iter_num",
})  # fmt: skip
STRIDE = 1 << 20  # more than the ids of a small profile differ by, if they are counters; others are hashes
WORD = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True)
class Event:
    """Its bytes, as far as they stay the same, and what changes."""

    head: bytes
    offset_ps: int
    tail: bytes
    ties: tuple[tuple[bytes, int], ...]  # statistics: the bytes before the value, and the value


def repeat(source: bytes, target: Path, size_bytes: int) -> int:
    """Writes the large profile; the number of its events."""
    space, file = xplane.parse_space(source), ProtoFile(source, "the recorded profile")
    starts_ends = [(int(e.start_ps.min()), int((e.start_ps + e.duration_ps).max()))
                   for plane in space.planes for line in plane.lines if len(e := line.events())]  # fmt: skip
    period_ps = max(end for _, end in starts_ends) - min(start for start, _ in starts_ends) + 1_000_000
    whole = fields(file, 0, len(source))
    planes = [list(fields(file, value, stop)) for _, tag, value, stop in whole if tag == xplane.PLANES_TAG]
    ties = [{i for i, name in plane.stat_names.items() if name in TIES} for plane in space.planes]
    lines = {
        at: list(events(file, value, stop, tied))
        for plane, tied in zip(planes, ties, strict=True)
        for at, tag, value, stop in plane
        if tag == xplane.PLANE_LINES
    }
    once = sum(len(encoded(event, 0, 0)) for line in lines.values() for event in line)
    times = max(1, round((size_bytes - (len(source) - once)) / (once * 1.04)))  # later offsets are longer numbers
    with target.open("wb") as out:
        for at, tag, value, stop in fields(file, 0, len(source)):
            if tag == xplane.PLANES_TAG:
                write_plane(file, (value, stop), lines, times, period_ps, out)
            else:
                out.write(source[at:stop])
    return times * sum(map(len, lines.values()))


def fields(file: ProtoFile, pos: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    for tag, value, stop in file.fields(pos, end):
        yield pos, tag, value, stop
        pos = stop


def events(file: ProtoFile, start: int, end: int, tied: set[int]) -> Iterator[Event]:
    for tag, value, stop in file.fields(start, end):
        if tag != EVENT:
            continue
        head, tail, ties, offset_ps = b"", b"", [], 0
        for at, inner, found, until in fields(file, value, stop):
            if inner == OFFSET:
                offset_ps = to_signed(found)
            elif inner == EVENT_STAT and (tie := tied_stat(file, found, until, tied)):
                ties.append(tie)
            elif inner < OFFSET:
                head += file.data[at:until]
            else:
                tail += file.data[at:until]
        yield Event(head, offset_ps, tail, tuple(ties))


def tied_stat(file: ProtoFile, start: int, end: int, tied: set[int]) -> tuple[bytes, int] | None:
    id_, value, tag_of = 0, None, 0
    for tag, found, _ in file.fields(start, end):
        if tag == STAT_ID:
            id_ = to_signed(found)
        elif tag in (STAT_INT, STAT_UINT):
            value, tag_of = found, tag
    if id_ not in tied or value is None:
        return None
    return encode_varint(STAT_ID) + encode_varint(id_) + encode_varint(tag_of), value


def encoded(event: Event, shift_ps: int, turn: int) -> bytes:
    parts = [event.head, b"\x10", encode_varint(event.offset_ps + shift_ps & WORD), event.tail]
    for before, value in event.ties:
        stat = before + encode_varint(value + turn * STRIDE & WORD)
        parts += (b"\x22", encode_varint(len(stat)), stat)
    body = b"".join(parts)
    return b"\x22" + encode_varint(len(body)) + body


def write_plane(
    file: ProtoFile, span: tuple[int, int], lines: dict[int, list[Event]], times: int, period_ps: int, out: IO[bytes]
) -> None:
    """Each line is made in a file of its own first, since its length stands before it."""
    with tempfile.TemporaryDirectory(dir=Path(out.name).parent) as folder:
        parts: list[bytes | Path] = []
        for at, tag, value, stop in fields(file, *span):
            if tag != xplane.PLANE_LINES:
                parts.append(file.data[at:stop])
                continue
            header = b"".join(file.data[a:s] for a, t, _, s in fields(file, value, stop) if t != EVENT)
            made = Path(folder, str(at))
            with made.open("wb") as body:
                body.write(header)
                for turn in range(times):
                    body.write(b"".join(encoded(event, turn * period_ps, turn) for event in lines[at]))
            parts += (encode_varint(tag) + encode_varint(made.stat().st_size), made)
        length = sum(len(part) if isinstance(part, bytes) else part.stat().st_size for part in parts)
        out.write(encode_varint(xplane.PLANES_TAG) + encode_varint(length))
        for part in parts:
            if isinstance(part, bytes):
                out.write(part)
            else:
                with part.open("rb") as made_line:
                    shutil.copyfileobj(made_line, out, 1 << 20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=float, default=250.0)
    args = parser.parse_args()
    count = repeat(args.source.read_bytes(), args.target, int(args.megabytes * 1e6))
    print(f"{args.target}: {count:,} events, {args.target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
