"""Time in which the recorder's thread got no turn counts for the loop in which it was found before and after."""

from __future__ import annotations

import pytest

from slowtrain.trace import Trace
from slowtrain.trace.signals.host.host_work import MAX_SAMPLE_GAP_MS, ms_of_samples, unsampled_ms

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


def looked(*samples: tuple[int, int]) -> Trace:
    """The main thread was found at these times (ms), in these lines."""
    spans = "".join(f"@span stack f start={at} end={at} line={line}\n" for at, line in samples)
    return parse_drawing(f"@phase preparation=9000\n{spans}")


@pytest.mark.parametrize(
    ("samples", "unseen"),
    [
        ([(100, 3), (150, 3), (4150, 3), (4200, 3)], 4000 - MAX_SAMPLE_GAP_MS),
        ([(100, 3), (4100, 7)], 4000 - MAX_SAMPLE_GAP_MS),  # the call of the function that the loop is in
        ([(100, 3), (4100, 5)], 0),  # somewhere else: that may have held the interpreter
        ([(100, 5), (4100, 3)], 0),
        ([(100, 3), (150, 5), (4150, 5), (4200, 3)], 0),
        ([(100, 3), (150, 3), (200, 3)], 0),
    ],
)
def test_between_two_looks_at_the_same_loop(samples: list[tuple[int, int]], unseen: float) -> None:
    trace = looked(*samples)
    stack = trace.lane("stack")
    places = {trace.names[int(n)].place for n in stack.name if (p := trace.names[int(n)].place) and p.line in (3, 7)}
    assert unsampled_ms(trace, stack, places) == unseen
    assert float(ms_of_samples(trace, stack).max()) <= MAX_SAMPLE_GAP_MS
