"""The answer for a recording and for the profile of its own window: one division of a step, told twice."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from slowtrain.model import Category
from slowtrain.profile import host_reasons
from slowtrain.profile.summaries import idle_reasons
from slowtrain.trace import Trace
from slowtrain.trace.loading import profile_trace, recording_trace

RECORDINGS = Path(__file__).parents[3] / "shared" / "traces" / "tf-h200"
DEVICE = (Category.DEVICE, Category.COLLECTIVE, Category.FEED)
NAMES = sorted(p.name for p in RECORDINGS.glob("*") if any(p.glob("window-*/**/*.xplane.pb")))


@functools.cache
def both(name: str) -> tuple[Trace, Trace]:
    """Of the recording, and of its window."""
    window = next((RECORDINGS / name).glob("window-*/**/*.xplane.pb"))
    return recording_trace.load_recording(RECORDINGS / name), profile_trace.load_profile([window])


def host_ms(trace: Trace) -> float:
    return trace.step_ms - sum(map(trace.mean, DEVICE)) - trace.mean(Category.OTHER_PROCESS)


@pytest.mark.skipif(not NAMES, reason="shared/traces/tf-h200 is not there")
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_a_recording_and_its_window_agree(name: str) -> None:
    recorded, window = both(name)
    assert recorded.device is not None
    assert recorded.device.profiled is not None
    for category in DEVICE:
        assert recorded.mean(category) == pytest.approx(window.mean(category), rel=0.05, abs=0.02), category
    # The host is slower under the profiler, and its part is the rest of the step: so much longer is the step, too.
    profiled_ms, usual_ms = recorded.device.profiled.step_ms, recorded.steps.quantile_ms(0.5)
    assert window.step_ms == pytest.approx(profiled_ms, rel=0.1)
    only_there = (
        sum(
            window.device.idle.get(r, 0.0)
            for r in (idle_reasons.OTHER_PROCESS_REASON, host_reasons.COMMAND_BUFFER_REASON)
        )
        if window.device
        else 0
    )
    inflated = (host_ms(window) - only_there) / host_ms(recorded)
    assert inflated < 1.1 * max(profiled_ms / usual_ms, 1.0)


@pytest.mark.skipif(not NAMES, reason="shared/traces/tf-h200 is not there")
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_the_device_waits_in_the_step_that_is_shown(name: str) -> None:
    recorded, _ = both(name)
    assert recorded.device is not None
    busy = sum(map(recorded.mean, (*DEVICE, Category.READBACK)))
    assert recorded.device.idle_ms <= recorded.step_ms
    assert recorded.device.idle_ms + busy == pytest.approx(recorded.step_ms, rel=0.05, abs=0.05)
