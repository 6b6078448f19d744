"""Of a profile that is too large as much is read as fits, all lines up to one moment, and that is said."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from slowtrain.profile import timeline
from slowtrain.profile.format import time_range, xplane

from .messages import event, nested, number, space, trace

RECORDED = Path(__file__).parent / "recorded"
MS = 1_000_000_000


def lines(found: xplane.Space) -> list[xplane.Line]:
    return [line for plane in found.planes for line in plane.lines]


def large(count: int) -> bytes:
    """Two threads, one of which has twice the events of the other, and none of these is longer than a millisecond."""
    twice = [event(1, i * MS, MS // 2) for i in range(2 * count)]
    once = [event(1, 2 * i * MS, MS, nested(4, number(1, 1), number(3, i))) for i in range(count)]
    return space(
        nested(3, nested(2, b"python"), number(3, 5), *twice), nested(3, nested(2, b"tf_a"), number(3, 5), *once)
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_TIMELINE_EVENTS", 15_000)
    monkeypatch.setattr(timeline, "MAX_SHORT_LINE_BYTES", 10_000)


@pytest.mark.usefixtures("small")
def test_so_much_is_read_as_fits() -> None:
    found = xplane.parse_space(large(20_000))
    far = timeline.find_horizon(lines(found))
    assert far is not None
    assert far.events == pytest.approx(60_000, rel=0.05)
    assert far.end_ps == pytest.approx(40_000 * MS, rel=0.05)
    assert far.ps == pytest.approx(10_000 * MS, rel=0.1)
    read = [line.events(before_ps=far.ps) for line in lines(found)]
    assert sum(map(len, read)) == pytest.approx(15_000, rel=0.1)
    assert all(events.start_ps.max() < far.ps for events in read)


@pytest.mark.usefixtures("small")
def test_what_fits_is_read_whole() -> None:
    assert timeline.find_horizon(lines(xplane.parse_space(large(4_000)))) is None
    assert timeline.find_horizon(lines(xplane.parse_space(large(4_900)))) is None  # looked into, and found small enough
    assert timeline.find_horizon([]) is None


@pytest.mark.usefixtures("small")
def test_lines_that_hold_no_events_of_the_usual_kind_are_no_obstacle() -> None:
    found = xplane.parse_space(
        space(nested(3, *(nested(4, b"\xff" * 90) for _ in range(5_000))), nested(3, b"\x22\x00" * 200_000))
    )
    assert timeline.find_horizon(lines(found)) is None


@pytest.mark.parametrize("name", ["tf-input-per-element", "tf-host-eager", "jax-eager"])
def test_the_part_told_of_is_told_as_a_cut_of_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data = gzip.decompress((RECORDED / f"{name}.xplane.pb.gz").read_bytes())
    _same_as_its_cut(monkeypatch, data)


def test_the_part_told_of_a_gpu_s_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    _same_as_its_cut(monkeypatch, trace("jax-mi300x/elementwise").read_bytes())


def _same_as_its_cut(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    whole = timeline.read_timeline([xplane.parse_space(data)])
    until_ps = int((whole.start_ms + whole.end_ms) / 2 * MS)
    smaller = xplane.parse_space(time_range.cut_profile(data, -MS, until_ps).data)
    expected = timeline.read_timeline([smaller])
    monkeypatch.setattr(timeline, "find_horizon", lambda *_: timeline.Horizon(until_ps, 2 * until_ps, 7_000_000))
    told = timeline.read_timeline([xplane.parse_space(data)])
    assert any("7 million events" in note and "slowtrain cut" in note for note in told.notes)
    later = (smaller.origin_ns - xplane.parse_space(data).origin_ns) / 1e6  # its own clock may begin later
    assert told.end_ms == pytest.approx(expected.end_ms + later)
    assert told.end_ms < whole.end_ms
    assert [len(t.start_ms) for t in told.threads] == [len(t.start_ms) for t in expected.threads]
    for one, other in zip(told.threads, expected.threads, strict=True):
        assert [one.texts[i] for i in one.name] == [other.texts[i] for i in other.name]
        assert [len(column) for column in one.launches] == [len(column) for column in other.launches]
        assert (one.calls is None) == (other.calls is None)
        assert one.calls is None or other.calls is None or (one.calls.traced == other.calls.traced).all()
    for mine, theirs in zip(told.devices, expected.devices, strict=True):
        assert len(mine.activities) == len(theirs.activities)
        np.testing.assert_allclose(mine.activities.start_ms, theirs.activities.start_ms + later, rtol=0, atol=1e-6)
