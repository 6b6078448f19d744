"""The knee and the line, of points as they might be measured."""

from __future__ import annotations

import pytest

from slowtrain.model.sizing import Point
from slowtrain.verify.curve import knee, line
from slowtrain.verify.sizing import REACH, _next


def points(*, fixed_ms: float, per_sample_ms: float, most: int, noise: float = 0.01) -> list[Point]:
    found = []
    batch = 1
    while batch <= most:
        ms = fixed_ms + per_sample_ms * batch
        rate = 1e3 * batch / ms
        found.append(Point(batch, ms, rate, rate * (1 - noise), rate * (1 + noise)))
        batch *= 2
    return found


@pytest.mark.parametrize(("fixed", "slope"), [(4.0, 0.1), (1.0, 0.01), (10.0, 1.0)])
def test_the_knee_is_where_a_doubling_gains_a_tenth(fixed: float, slope: float) -> None:
    """A doubling from b gains fixed / (fixed + 2 slope b), so the knee lies at 4.5 fixed / slope."""
    found = knee(points(fixed_ms=fixed, per_sample_ms=slope, most=4096))
    assert found is not None
    assert 4.5 * fixed / slope <= found < 9 * fixed / slope


def test_there_is_no_knee_where_the_last_doubling_gained() -> None:
    assert knee(points(fixed_ms=4.0, per_sample_ms=0.01, most=256)) is None


def test_one_doubling_that_was_disturbed_is_no_knee() -> None:
    known = points(fixed_ms=4.0, per_sample_ms=0.01, most=256)
    slow = known[3]
    known[3] = Point(slow.batch, slow.step_ms * 2, slow.samples_per_s / 2, slow.low / 2, slow.high / 2)
    assert knee(known) is None


def test_the_intervals_tell_how_sure_the_knee_is() -> None:
    known = points(fixed_ms=4.0, per_sample_ms=0.1, most=4096, noise=0.02)
    low, middle = knee(known, optimism=-1), knee(known)
    assert low is not None
    assert middle is not None
    assert low <= middle
    high = knee(known, optimism=1)
    assert high is None or high >= middle


def test_the_line_is_found_again() -> None:
    fixed, slope, low, high = line(points(fixed_ms=3.0, per_sample_ms=0.25, most=512))
    assert (fixed, slope, low, high) == pytest.approx((3.0, 0.25, 3.0, 3.0))
    assert line(points(fixed_ms=3.0, per_sample_ms=0.25, most=2)) == (None, None, None, None)


def test_probes_go_on_until_the_answer_is_near() -> None:
    reached, largest, sizes = 32, 5000, []
    while (step := _next(reached, largest)) is not None:
        assert step <= 4 * reached
        sizes.append(reached := step)
    assert sizes == [128, 512, 2048, 2500]
    assert largest <= REACH * reached
    assert _next(32, 10) == 5
    assert _next(32, 0) is None
