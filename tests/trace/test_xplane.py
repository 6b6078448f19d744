"""The columnar reader against a decoder that is slow and obvious, on real profiles and on messages made by hand."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.profile.format import wire_format, xplane

from .messages import entry, event, nested, number, space, trace

COUNTS = {  # events; the first and the last as the folder's README says
    "tf-v100-bert/worker-0": 23_128,
    "jax-mi300x/attention": 4_380,
    "jax-mi300x/conv": 3_650,
    "jax-mi300x/elementwise": 4_623,
    "tpu/tpu-inference": 26_723,
}


# ---- a decoder to compare with --------------------------------------------------------------------------------

Message = dict[int, list[Any]]


def varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[pos] & 0x7F) << shift
        shift, pos = shift + 7, pos + 1
        if data[pos - 1] < 0x80:
            return value, pos


def message(data: bytes) -> Message:
    """Field number to values: numbers for varints, eight or four bytes, or the payload."""
    found: Message = {}
    pos = 0
    while pos < len(data):
        tag, pos = varint(data, pos)
        value: int | bytes
        if tag & 7 == 0:
            value, pos = varint(data, pos)
        else:
            size, pos = varint(data, pos) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], pos)
            value, pos = data[pos : pos + size], pos + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def last(fields: Message, number: int, missing: Any = 0) -> Any:
    return fields.get(number, [missing])[-1]


def stat_value(fields: Message, names: dict[int, str]) -> Any:
    for field, value in ((n, values[-1]) for n, values in fields.items() if n > 1):
        if field == 2:
            return struct.unpack("<d", value)[0]
        if field in (3, 4):
            return signed(value)
        return names[value] if field == 7 else value.decode()
    return None


def planes(data: bytes) -> list[tuple[str, dict[int, str], list[Any]]]:
    """Name, event names and lines of each plane; a line is name, timestamp and events with their stats."""
    found = []
    for plane in map(message, message(data).get(1, [])):
        tables = {}
        for field in (4, 5):
            entries = [message(one) for one in plane.get(field, [])]
            tables[field] = {signed(last(e, 1)): last(message(last(e, 2, b"")), 2, b"").decode() for e in entries}
        lines = []
        for line in map(message, plane.get(3, [])):
            events = []
            for found_event in map(message, line.get(4, [])):
                stats = [message(stat) for stat in found_event.get(4, [])]
                events.append(
                    (signed(last(found_event, 1)), signed(last(found_event, 2)), signed(last(found_event, 3)),
                     {tables[5][last(s, 1)]: stat_value(s, tables[5]) for s in stats})
                )  # fmt: skip
            lines.append((last(line, 2, b"").decode(), last(line, 3), events))
        found.append((last(plane, 2, b"").decode(), tables[4], lines))
    return found


# ---- messages made by hand ------------------------------------------------------------------------------------


def only_line(data: bytes, stats: tuple[str, ...] = ()) -> xplane.Events:
    return xplane.parse_space(data).planes[0].lines[0].events(stats)


# ---- real profiles --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTS)
def test_real_profiles_agree_with_the_obvious_decoder(name: str) -> None:
    path = trace(name)
    found, count = xplane.read_space(path), 0
    for plane, (plane_name, event_names, lines) in zip(found.planes, planes(path.read_bytes()), strict=True):
        assert plane.name == plane_name
        assert plane.event_names == event_names
        for line, (line_name, timestamp_ns, expected) in zip(plane.lines, lines, strict=True):
            assert (line.name, line.timestamp_ns) == (line_name, timestamp_ns)
            events = line.events(tuple(plane.stat_names.values()))
            base_ps = (timestamp_ns - found.origin_ns) * 1000
            assert events.metadata_id.tolist() == [e[0] for e in expected]
            assert events.start_ps.tolist() == [e[1] + base_ps for e in expected]
            assert events.duration_ps.tolist() == [e[2] for e in expected]
            assert_same_stats(events, [e[3] for e in expected])
            count += len(events)
    assert count == COUNTS[name]


def assert_same_stats(events: xplane.Events, expected: list[dict[str, Any]]) -> None:
    rows: list[dict[str, Any]] = [{} for _ in expected]
    for name, stat in events.stats.items():
        for row, value, code in zip(stat.rows, stat.numbers, stat.codes, strict=True):
            rows[row][name] = stat.texts[code] if code >= 0 else value
    for row, want in zip(rows, expected, strict=True):
        assert row.keys() == want.keys()
        for name, value in want.items():
            assert (
                row[name] == pytest.approx(value, rel=0, abs=0, nan_ok=True)
                if isinstance(value, float)
                else value == row[name]
            )


def test_a_gzipped_profile_reads_the_same(tmp_path: Path) -> None:
    path = trace("jax-mi300x/conv")
    zipped = tmp_path / "conv.xplane.pb.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    for plain, other in zip(xplane.read_space(path).planes, xplane.read_space(zipped).planes, strict=True):
        assert plain.event_names == other.event_names
        assert [len(line.events()) for line in plain.lines] == [len(line.events()) for line in other.lines]


def test_facts_of_a_device_and_of_a_name_are_read() -> None:
    named = {plane.name: plane for plane in xplane.read_space(trace("tpu/tpu-inference")).planes}
    assert named["/device:TPU:0"].stats["peak_teraflops_per_second"] == 918.0
    programs = named["/host:metadata"].metadata_stats(("Hlo Proto",))
    assert len(programs) == 4
    assert all(isinstance(stats["Hlo Proto"], bytes) for stats in programs.values())
    assert not named["/host:metadata"].metadata_stats(("absent",))


# ---- one property of the format at a time -----------------------------------------------------------------------


def test_negative_numbers_and_large_ones() -> None:
    events = only_line(space(nested(3, number(3, 5), event(1, -7, 2**40), event(-3, 2**55 + 1, 0))))
    assert events.metadata_id.tolist() == [1, -3]
    assert events.start_ps.tolist() == [-7, 2**55 + 1]
    assert events.duration_ps.tolist() == [2**40, 0]


def test_unknown_fields_are_skipped() -> None:
    odd = number(700, 5) + nested(90, b"xyz") + b"\x79" + bytes(8) + b"\x7d" + bytes(4)
    line = nested(3, odd, number(3, 5), nested(4, odd, number(1, 2), odd), odd)
    assert only_line(odd + space(line, more=odd)).metadata_id.tolist() == [2]


def test_stats_of_every_kind() -> None:
    double = nested(4, number(1, 1), b"\x11" + struct.pack("<d", 0.5))
    stats = [nested(4, number(1, 1), number(4, -4)), double, nested(4, number(1, 1), nested(5, b"caf\xc3\xa9")),
             nested(4, number(1, 1), number(7, 2)), nested(4, number(1, 2), number(3, 9)), b""]  # fmt: skip
    events = only_line(space(nested(3, *(event(1, 0, 1, stat) for stat in stats))), ("bytes", "absent"))
    stat = events.stats["bytes"]
    assert stat.rows.tolist() == [0, 1, 2, 3]
    texts = [stat.texts[code] if code >= 0 else None for code in stat.labels()]
    assert texts == [None, None, "café", "host", None, None]
    assert np.array_equal(stat.per_event(np.nan)[[0, 1]], [-4.0, 0.5])
    assert len(events.stats["absent"].rows) == 0


def test_of_two_names_with_one_id_the_later_one_holds() -> None:
    again = entry(4, 1, "first", nested(4, b"shown")) + entry(4, 1, "later")
    plane = xplane.parse_space(space(more=again)).planes[0]
    assert plane.event_names[1] == "later"


def test_names_of_events_and_of_statistics_are_two_tables() -> None:
    shown = entry(4, 7, "MatMul", nested(4, b"shown"), nested(5, number(1, 1), number(3, 8)))
    plane = xplane.parse_space(space(more=shown + entry(5, 7, "a statistic"))).planes[0]
    assert plane.metadata_stats(("bytes",)) == {7: {"bytes": 8}}


def test_events_larger_than_a_window_and_across_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "WINDOW_BYTES", 64)
    large = nested(4, number(1, 1), nested(5, b"x" * 500))
    lines = nested(3, *(event(i, i, 1, large if i % 7 == 3 else b"") for i in range(200)))
    assert only_line(space(lines), ("bytes",)).metadata_id.tolist() == list(range(200))


def test_times_near_the_epoch_do_not_overflow() -> None:
    now_ns = 1_800_000_000_000_000_000
    lines = [nested(3, number(3, now_ns), event(1, 5, 1)), nested(3, number(3, now_ns + 2), event(1, 0, 1))]
    found = xplane.parse_space(space(*lines))
    assert [line.events().start_ps.tolist() for line in found.planes[0].lines] == [[5], [2000]]


def test_sums_of_events_are_told_from_events() -> None:
    events = only_line(space(nested(3, nested(4, number(1, 1), number(3, 9), number(5, 3)))))
    assert events.occurrences is not None
    assert events.occurrences.tolist() == [3]
