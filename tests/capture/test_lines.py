"""The line tracer steps aside for whoever else traces."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from slowtrain.capture.core.line_tracer import MAX_TRACED_LINES, LineTracer
from slowtrain.capture.inspection import user_code


@pytest.fixture(autouse=True)
def _ours_are_the_users(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """These tests may be measured by a tracer themselves (a debugger, coverage); it gets its turn afterwards."""
    monkeypatch.setitem(user_code._user_by_file, __file__, True)
    before = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(before)


def theirs(frame: FrameType, event: str, argument: Any) -> Any:
    return theirs


def busy(turns: int) -> int:
    total = 0
    for i in range(turns):
        total += i
    return total


def test_lines_and_visits() -> None:
    tracer = LineTracer()
    assert tracer.begin(sys._getframe())
    busy(50)
    tracer.end()
    assert sys.gettrace() is None
    line = busy.__code__.co_firstlineno + 3
    assert tracer.visits[__file__, line] == 50
    assert sum(tracer.spent.values()) > 0
    assert sys._getframe().f_trace is None


def test_somebody_else_traces_already() -> None:
    sys.settrace(theirs)
    assert not LineTracer().begin()
    assert sys.gettrace() is theirs


def test_somebody_else_begins_meanwhile() -> None:
    tracer = LineTracer()
    assert tracer.begin(sys._getframe())
    sys.settrace(theirs)
    busy(3)
    tracer.end()
    assert sys.gettrace() is theirs
    assert (__file__, busy.__code__.co_firstlineno + 3) not in tracer.visits


def test_it_gives_up_in_time() -> None:
    tracer = LineTracer()
    assert tracer.begin(sys._getframe())
    busy(MAX_TRACED_LINES)
    assert sys.gettrace() is None
    assert sum(tracer.visits.values()) <= MAX_TRACED_LINES + 1
    tracer.end()


def test_what_it_gave_up_on_counts_as_what_it_saw() -> None:
    """Two lines take turns, and a hundred milliseconds come after: neither of the two gets them alone."""
    tracer = LineTracer()
    assert tracer.begin(sys._getframe())
    busy(MAX_TRACED_LINES)
    seen, visits = dict(tracer.spent), dict(tracer.visits)
    time.sleep(0.1)
    tracer.end()
    first = busy.__code__.co_firstlineno + 2
    one, two = (__file__, first), (__file__, first + 1)
    assert tracer.spent[one] + tracer.spent[two] > 100_000_000
    assert tracer.spent[one] / tracer.spent[two] == pytest.approx(seen[one] / seen[two], rel=0.01)
    assert tracer.visits[one] / visits[one] == pytest.approx(tracer.spent[one] / seen[one], rel=0.01)
