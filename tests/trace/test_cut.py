"""A profile cut down: what is kept is what was there, byte for byte, and all that it refers to is still named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain import cli
from slowtrain.errors import InputError
from slowtrain.profile import framework_names
from slowtrain.profile.format import time_range, xplane
from slowtrain.trace.loading import profile_trace

from .messages import entry, event, nested, number, space, trace
from .test_xplane import COUNTS
from .test_xplane import planes as decoded

EVER = (1 << 63) - 1
Row = tuple[Any, ...]


def rows(data: bytes) -> list[Row]:
    """Every event with what it says, its time on the profile's own clock, by the slow and obvious decoder."""
    return [
        (plane, line, timestamp_ns * 1000 + start_ps, events.get(key), duration_ps, sorted(stats.items(), key=repr))
        for plane, events, lines in decoded(data)
        for line, timestamp_ns, found in lines
        for key, start_ps, duration_ps, stats in found
    ]


def facts(data: bytes) -> dict[str, tuple[Any, ...]]:
    """What stands beside the events, as the reader of profiles sees it."""
    found = xplane.parse_space(data)
    beside = {p.name: (p.id, dict(p.stats)) for p in found.planes if p.name != framework_names.METADATA_PLANE}
    return {"planes": tuple(beside.items()), "notes": (found.errors, found.warnings, found.hostnames)}


# ---- real profiles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUNTS)
def test_the_whole_range_keeps_all_events_and_whatever_they_refer_to(name: str) -> None:
    data = trace(name).read_bytes()
    whole = time_range.cut_profile(data, -EVER, EVER)
    assert (whole.events.kept, whole.events.of) == (COUNTS[name], COUNTS[name])
    assert rows(whole.data) == rows(data)
    assert facts(whole.data) == facts(data)
    before, after = xplane.parse_space(data), {plane.name: plane for plane in xplane.parse_space(whole.data).planes}
    for plane in before.planes:
        if plane.lines:
            kept = after[plane.name]
            assert kept.event_names.items() <= plane.event_names.items()
            assert kept.stat_names.items() <= plane.stat_names.items()
            stats = plane.metadata_stats(tuple(plane.stat_names.values()))
            assert kept.metadata_stats(tuple(plane.stat_names.values())) == {
                key: stats[key] for key in kept.event_names if key in stats
            }


@pytest.mark.parametrize("name", COUNTS)
def test_a_cut_again_changes_nothing(name: str) -> None:
    once = time_range.cut_profile(trace(name).read_bytes(), -EVER, EVER).data
    assert time_range.cut_profile(once, -EVER, EVER).data == once


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * ("bert" in n)) for n in COUNTS])
def test_two_halves_are_the_whole(name: str) -> None:
    data = trace(name).read_bytes()
    origin_ps = xplane.parse_space(data).origin_ns * 1000
    starts = sorted(row[2] for row in rows(data))
    middle_ps = starts[len(starts) // 2] - origin_ps
    early, late = time_range.cut_profile(data, -EVER, middle_ps), time_range.cut_profile(data, middle_ps, EVER)
    assert 0 < early.events.kept < COUNTS[name]
    assert early.starts_ps == (starts[0] - origin_ps, starts[-1] - origin_ps)
    assert all(row[2] < middle_ps + origin_ps for row in rows(early.data))
    assert all(row[2] >= middle_ps + origin_ps for row in rows(late.data))
    assert Counter(map(repr, rows(early.data) + rows(late.data))) == Counter(map(repr, rows(data)))
    assert facts(early.data) == facts(late.data) == facts(data)


def test_the_programs_of_a_profile_are_left_out() -> None:
    data = trace("tpu/tpu-inference").read_bytes()
    found = time_range.cut_profile(data, -EVER, EVER)
    assert (found.planes.kept, found.planes.of) == (6, 7)
    assert len(found.data) == found.size.kept < found.size.of == len(data)
    assert framework_names.METADATA_PLANE not in [plane.name for plane in xplane.parse_space(found.data).planes]


# ---- profiles made by hand ----------------------------------------------------------------------------------------


def with_stat(key: int, offset_ps: int, *stats: bytes) -> bytes:
    return event(key, offset_ps, 5, *(nested(4, stat) for stat in stats))


MORE = b"".join(
    (
        entry(4, 3, "unused"),
        entry(4, 4, "parent", nested(6, b"\x05\x06")),  # children, packed
        entry(4, 5, "child", number(6, 7)),  # and one by one
        entry(4, 6, "the other child", nested(5, number(1, 3), number(7, 4))),
        entry(4, 7, "grandchild", number(6, 4)),
        entry(5, 3, "beside a name"),
        entry(5, 4, "a text that a name refers to"),
        entry(5, 5, "unused"),
        entry(5, 6, "of the plane"),
        nested(6, number(1, 6), number(7, 7)),
        entry(5, 7, "a text of the plane"),
    )
)
MADE = space(
    nested(3, number(1, 1), nested(2, b"early"), number(3, 10), with_stat(1, 0), with_stat(2, 100), nested(11, b"x")),
    nested(3, number(1, 2), nested(2, b"late"), number(3, 10), with_stat(4, 900, number(1, 1) + number(7, 2))),
    nested(3, number(1, 3), nested(2, b"empty"), number(3, 1)),
    nested(3, number(1, 4), nested(2, b"sums"), number(3, 10), nested(4, number(1, 1), number(3, 9), number(5, 3))),
    more=MORE + number(90, 3),
) + nested(4, b"host")


def tables(data: bytes) -> tuple[set[int], set[int]]:
    plane = xplane.parse_space(data).planes[0]
    return set(plane.event_names), set(plane.stat_names)


def lines(data: bytes) -> dict[str, int]:
    return {line.name: len(line.events()) for line in xplane.parse_space(data).planes[0].lines}


def test_the_start_belongs_to_the_range_and_the_end_does_not() -> None:
    starts = [
        int(line.events().start_ps[0]) for line in xplane.parse_space(MADE).planes[0].lines if line.name == "early"
    ]
    assert starts == [0]
    assert lines(time_range.cut_profile(MADE, 0, 100).data) == {"early": 1, "sums": 1}
    assert lines(time_range.cut_profile(MADE, 1, 101).data) == {"early": 1}
    assert lines(time_range.cut_profile(MADE, 0, 101).data) == {"early": 2, "sums": 1}


def test_what_goes_and_what_stays() -> None:
    late = time_range.cut_profile(MADE, 900, 901)
    assert lines(late.data) == {"late": 1}
    events, stats = tables(late.data)
    assert events == {4, 5, 6, 7}  # with children and theirs, around the circle
    assert stats == {1, 2, 3, 4, 6, 7}
    assert (late.names.kept, late.names.of) == (10, 14)
    assert str(late.lines) == "1 of 4"
    early = time_range.cut_profile(MADE, 0, 50)
    assert tables(early.data) == ({1}, {6, 7})
    assert early.data.endswith(nested(4, b"host"))
    assert number(90, 3) in early.data
    assert nested(11, b"x") in early.data


def test_events_are_copied_byte_for_byte_even_oddly_written_ones() -> None:
    odd = nested(700, b"unknown") + b"\x08\x81\x80\x00"  # a number in more bytes than it needs
    long = b"\x22" + bytes([0x80 | len(odd), 0x80, 0]) + odd  # a length, too
    data = space(nested(3, number(3, 5), event(1, 50, 1), long, event(2, 0, 1)))
    kept = time_range.cut_profile(data, 0, 1).data
    assert long + event(2, 0, 1) in kept
    assert event(1, 50, 1) not in kept


def test_nothing_in_the_range_leaves_the_planes() -> None:
    found = time_range.cut_profile(MADE, 500, 501)
    assert (found.events.kept, found.lines.kept, found.starts_ps) == (0, 0, (0, 900))
    assert facts(found.data) == facts(MADE)


def test_what_is_no_profile_is_an_error() -> None:
    for data in (b"", b"{}", MADE[:-9] + b"\xff" * 9):
        with pytest.raises(InputError):
            time_range.cut_profile(data, 0, 1)


events = st.tuples(st.integers(1, 9), st.integers(-20, 120), st.integers(0, 50))
made_lines = st.lists(st.tuples(st.integers(0, 2), st.lists(events, max_size=9)), max_size=4)


@pytest.mark.fuzz
@given(made_lines, st.integers(-30, 2200), st.integers(-30, 2200))
def test_any_range_of_any_lines(drawn: list[tuple[int, list[tuple[int, int, int]]]], start: int, end: int) -> None:
    data = space(*(nested(3, number(3, at), *(event(*one) for one in found)) for at, found in drawn))
    origin_ps = min((at for at, found in drawn if found), default=0) * 1000
    kept = time_range.cut_profile(data, start, end)
    inside = [row for row in rows(data) if start <= row[2] - origin_ps < end]
    assert rows(kept.data) == inside
    assert (kept.events.kept, kept.events.of) == (len(inside), len(rows(data)))
    assert kept.lines.kept == len(xplane.parse_space(kept.data).planes[0].lines)


# ---- the verb -----------------------------------------------------------------------------------------------------


def test_the_verb_writes_the_cut_and_says_what_it_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile, out = tmp_path / "host.xplane.pb", tmp_path / "small.xplane.pb.gz"
    profile.write_bytes(MADE)
    assert cli.main(["cut", str(profile), "--to-ms", "5e-7", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("kept 3 of 4 events, 2 of 4 lines, 1 of 1 planes, ")
    assert said.splitlines()[-1] == str(out)
    assert sum(len(line.events()) for line in xplane.read_space(out).planes[0].lines) == 3
    assert sorted(tmp_path.iterdir()) == [profile, out]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "give --from-ms, --to-ms or both"),
        (["--from-ms", "2", "--to-ms", "2"], "--from-ms 2 is not before --to-ms 2"),
        (["--from-ms", "nan"], "numbers of milliseconds"),
        (["--from-ms", "1"], "no event starts in that range; they start between 0.000 and 0.000 ms"),
        (["--to-ms", "1", "--out", "no/such/folder/x.pb"], "cannot write"),
        (["--to-ms", "1", "--out", "host.xplane.pb"], "is the profile itself"),
    ],
    ids=["no range", "empty range", "no number", "nothing there", "no folder", "itself"],
)
def test_misuse_of_the_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host.xplane.pb").write_bytes(MADE)
    assert cli.main(["cut", ".", "--out", "small.xplane.pb", *options]) == 2
    assert says in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["host.xplane.pb"]


def test_of_several_hosts_one_is_to_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("a", "b"):
        (tmp_path / f"{host}.xplane.pb").write_bytes(MADE + nested(4, host.encode()))
    assert cli.main(["cut", str(tmp_path), "--to-ms", "1", "--out", str(tmp_path / "x.pb")]) == 2
    assert "holds 2 profiles; name one" in capsys.readouterr().err


def test_the_verb_cuts_steps_from_the_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, out = Path(__file__).parent / "recorded" / "tf-host-graph.xplane.pb.gz", tmp_path / "some.xplane.pb"
    assert cli.main(["cut", str(whole), "--steps", "3", "--out", str(out)]) == 0
    found = profile_trace.load_profile([out])
    before = profile_trace.load_profile([whole])
    assert found.steps.source == before.steps.source
    assert 2 <= len(found.steps) <= 3  # the last one's end is known only from the next one's start
    assert found.step_ms == pytest.approx(before.step_ms, rel=0.5)
    assert cli.main(["cut", str(whole), "--steps", "300", "--out", str(out)]) == 2
    assert "whole steps" in capsys.readouterr().err
    assert cli.main(["cut", str(whole), "--steps", "3", "--to-ms", "1", "--out", str(out)]) == 2
