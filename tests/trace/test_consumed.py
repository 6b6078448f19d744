"""What the times between a batch handed out and the next one asked for tell of steps far longer than the rest."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.columns.steps import Steps
from slowtrain.trace.loading import recorded_pipelines

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package


def steps(every: int, count: int = 200) -> Steps:
    """Steps of 2 ms, each ``every`` of which takes 200."""
    found = parse_drawing(f"step 1\ndevice k\n@repeat {count}").steps
    ms = np.where(np.arange(count) % every == every - 1, 200.0, 2.0)
    end = np.cumsum(ms)
    return replace(found, start_ms=end - ms, end_ms=end)


def test_long_steps_in_which_the_consumer_was_not_busy_waited() -> None:
    """Files of four batches: the gaps are those of usual steps, so that the long ones waited for input."""
    assert recorded_pipelines._far_gap_ms(np.full(100, 2000.0), steps(4)) == 0


def test_long_steps_in_which_the_consumer_was_busy_did_not_wait() -> None:
    gaps = np.where(np.arange(100) % 4 == 3, 200_000.0, 2000.0)
    assert recorded_pipelines._far_gap_ms(gaps, steps(4)) == pytest.approx(51.5 - 2)


def test_few_gaps_say_nothing_of_rare_long_steps() -> None:
    assert recorded_pipelines._far_gap_ms(np.full(100, 2000.0), steps(50)) is None
    assert recorded_pipelines._far_gap_ms(np.zeros(0), steps(4)) is None
