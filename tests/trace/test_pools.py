"""What a profile's memory events say of allocators, on real profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Signal
from slowtrain.profile.format import xplane
from slowtrain.profile.summaries import device_summary
from slowtrain.trace.loading import profile_trace

TRACES = Path(__file__).parents[3] / "shared" / "traces"


def _there(name: str) -> Path:
    file = TRACES / name
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    return file


def test_eight_gpus_of_16_gib() -> None:
    found = device_summary.read_pools([xplane.read_space(_there("tf-v100-bert/worker-0.xplane.pb"))])
    four = found["GPU_4_bfc"]
    assert four["limit_bytes"] == 15_477_102_400
    assert four["in_use_bytes"] == 6_208_853_760 <= four["peak_bytes"]
    assert 0 <= four["fragmentation_share"] < 1e-6
    trace = profile_trace.load_profile([_there("tf-v100-bert/worker-0.xplane.pb")])
    assert Signal.ALLOCATOR in trace.signals
    healthy = diagnose_trace(trace).healthy
    assert {"memory/near-capacity", "memory/fragmentation"} <= set(healthy)


def test_a_profile_without_memory_events_tells_nothing() -> None:
    assert device_summary.read_pools([xplane.read_space(_there("tpu/tpu-inference.xplane.pb"))]) == {}
