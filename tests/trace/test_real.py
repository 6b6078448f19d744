"""The real profiles at hand: what one finds who goes through them by hand, as docs/real-profiles.md tells it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.loading import profile_trace

from .messages import trace as real


def read(name: str) -> Trace:
    return profile_trace.load_profile([real(name)])


@dataclass(frozen=True)
class Seen:
    """Of the busiest device; ``idle`` are shares of its idle time."""

    steps: int
    step_ms: float
    kernels: float
    busy: float
    idle: dict[str, float]
    longest: tuple[float, str, str]
    speedup: float | None = None  # of the first cause


SEEN = {
    "tf-v100-bert/worker-0": Seen(
        1, 21.310, 665, 0.699, {"dispatch": 0.571, "queue": 0.429}, (2.383, "dispatch", "before replica_6/"), 1.63
    ),
    "jax-mi300x/attention": Seen(
        3, 10.854, 29, 0.118, {"sync": 0.717, "dispatch": 0.204, "python": 0.039, "convert": 0.027},
        (20.693, "sync", "BufferSequencingEvent::Execute"), 1.179,
    ),
    "jax-mi300x/conv": Seen(
        4, 26.555, 5, 0.026, {"sync": 0.763, "dispatch": 0.204, "convert": 0.032},
        (44.463, "sync", "$api.py:3154 block_until_ready"),
    ),
    "jax-mi300x/elementwise": Seen(
        4, 2.016, 13, 0.384, {"dispatch": 0.453, "python": 0.302, "queue": 0.100, "convert": 0.084},
        (0.324, "python", "$custom_derivatives.py:259 __call__"), 1.515,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_steps_and_waits(name: str) -> None:
    trace, seen = read(name), SEEN[name]
    device = trace.device
    assert device is not None
    assert len(trace.steps) == seen.steps
    assert trace.step_ms == pytest.approx(seen.step_ms, abs=0.001)
    assert device.kernels == seen.kernels
    assert device.busy_ms / trace.step_ms == pytest.approx(seen.busy, abs=0.001)
    for reason, share in seen.idle.items():
        assert device.idle[reason] / device.idle_ms == pytest.approx(share, abs=0.001)
    gap = device.gaps[0]
    ms, reason, detail = seen.longest
    assert gap.ms == pytest.approx(ms, abs=0.001)
    assert gap.reason == reason
    assert gap.detail.startswith(detail)
    assert 0 < len(device.gaps) <= 10


@pytest.mark.parametrize("name", SEEN)
def test_at_least_nine_tenths_of_the_idle_time_get_a_name(name: str) -> None:
    device = read(name).device
    assert device is not None
    assert device.idle.get("unattributed", 0.0) <= 0.1 * device.idle_ms


@pytest.mark.parametrize("name", SEEN)
def test_what_the_first_cure_would_give(name: str) -> None:
    found = diagnose_trace(read(name)).diagnoses
    speedups = [d.saving.speedup for d in found[:1]]
    assert speedups == ([pytest.approx(SEEN[name].speedup, abs=0.005)] if SEEN[name].speedup else [])


def test_a_v100() -> None:
    """Two GPUs with 665 kernels each that overlap nothing; one only copies, five are silent; no matrix product."""
    trace = read("tf-v100-bert/worker-0")
    device = trace.device
    assert device is not None
    assert device.kernel_ms == pytest.approx(14.865, abs=0.001)
    assert device.median_kernel_us == pytest.approx(12.288, abs=0.001)
    assert device.queued_share == pytest.approx(0.887, abs=0.001)
    assert not device.matrix_ms
    unchecked = {u.cause for u in diagnose_trace(trace).unchecked}
    assert unchecked >= {"compute/full-precision", "compute/unaligned-shapes"}  # the step goes on behind the window
    notes = " ".join(trace.facts["notes"])
    assert "the profile has only one step" in notes
    assert "the report covers GPU:6, the busiest of 8 devices; GPU:4 also computed" in notes
    assert "only copies, no kernels, on GPU:1" in notes
    assert "5 of 8 devices have no events in the profile: GPU:0, GPU:2, GPU:3, GPU:5, GPU:7" in notes


def test_a_tpu_has_its_programs_runs_as_steps() -> None:
    trace = read("tpu/tpu-inference")
    assert (len(trace.steps), trace.steps.source) == (98, "runs of the program 'jit_f'")
    assert trace.step_ms == pytest.approx(784.248, abs=0.001)
    assert trace.share(Category.DEVICE) > 0.99
    assert trace.device is not None
    waiting = sum(ms for name, (ms, _) in trace.device.by_kernel.items() if name.startswith("%copy-done"))
    assert waiting / trace.device.kernel_ms == pytest.approx(0.970, abs=0.001)


def test_directions_of_copies_that_have_one_name_come_from_the_call() -> None:
    device = read("jax-mi300x/attention").device
    assert device is not None
    assert device.copies["h2d"].count == 6.0
