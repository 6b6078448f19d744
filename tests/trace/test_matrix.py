"""Every cause against profiles that were made with a known cause or without any: exactly these are found, no others.

What a profile shows comes from how it was made (recorded/make.py), never from what the tool says of it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from slowtrain.causes import all_causes
from slowtrain.diagnose import Findings, diagnose_trace
from slowtrain.trace import Trace
from slowtrain.trace.loading import profile_trace

RECORDED = Path(__file__).parent / "recorded"
COMPUTES = frozenset({"compute/compute-bound"})  # nothing is wrong with it: ops compute nearly all the time
MATRIX = {
    "tf-input-sequential-map": {"input/sequential-map"} | COMPUTES,
    "tf-input-parallel-map": COMPUTES,
    "tf-input-generator": {"input/python-input"},
    "tf-input-py-function": {"input/python-input"},
    "tf-input-arrays": COMPUTES,
    # Its map is sequential as well, while a core is idle: both were done on purpose.
    "tf-input-unprefetched": {"input/unprefetched-input", "input/sequential-map"} | COMPUTES,
    "tf-input-prefetched": COMPUTES,
    "tf-input-per-element": {"input/per-element-map"},
    "tf-input-batch-map": COMPUTES,
    "tf-input-small-files": {"input/unsharded-files"},
    "tf-host-eager": {"host/eager-step"},
    "tf-host-run-eagerly": {"host/eager-step"},
    "tf-host-graph": COMPUTES,
    "tf-host-retracing": {"host/retracing"},
    "tf-host-traced-once": COMPUTES,
    "tf-host-readback": set(),  # TensorFlow's profiler writes nothing down of a readback on a CPU
    "tf-host-launch-bound": {"host/launch-bound"},
    "tf-whole-table": {"compute/dense-embedding-update"} | COMPUTES,
    "tf-table-rows": {"host/launch-bound"} | COMPUTES,  # what is left is the start of a dozen small ops
    "jax-healthy": COMPUTES,
    "jax-input-bound": {"input/python-input"},
    "jax-readback": set(),
    "jax-retracing": {"host/retracing"},
    "jax-one-shape": COMPUTES,
    "jax-eager": {"host/eager-step"},
    # On an H100, in pairs; see recorded/make_gpu.py.
    "gpu-healthy": COMPUTES,
    "gpu-tf32": {"compute/full-precision"} | COMPUTES,  # 16 bits are twice as fast: gpu-healthy
    "gpu-float32": {"compute/full-precision"} | COMPUTES,
    "gpu-convolution": COMPUTES,
    "gpu-convolution-float32": {"compute/full-precision"} | COMPUTES,
    "gpu-convolution-tf32": {"compute/full-precision"} | COMPUTES,
    "gpu-aligned": COMPUTES,
    "gpu-unaligned": {"compute/unaligned-shapes"} | COMPUTES,
    "gpu-single": {"compute/full-precision"} | COMPUTES,
    "gpu-double": {"compute/double-precision"} | COMPUTES,
    "gpu-rnn": set(),  # XLA's loop of fused kernels is no slower than cuDNN's layer
    "gpu-rnn-fused": {"host/launch-bound"},  # cuDNN's own kernels, 450 in a step, of two microseconds each
    "gpu-elementwise": {"compute/unfused-elementwise"} | COMPUTES,
    "gpu-elementwise-fused": COMPUTES,
    "gpu-input-bound": {"input/python-input"},
    "gpu-launch-bound": {"host/launch-bound"},
    "gpu-launch-bound-kernels": {"host/launch-bound"},
    "gpu-eager": {"host/eager-step"},
    "gpu-eager-compiled": {"host/launch-bound"},
    "gpu-input-ready": set(),
    "gpu-logs-unread": set(),
    "gpu-loss-kept": {"host/launch-bound"},
    "gpu-retracing": {"host/retracing"},
    "gpu-host-ops": {"compute/host-placed-ops"},
    "gpu-device-ops": {"compute/full-precision"} | COMPUTES,
    "gpu-readback": {"transfer/per-step-readback"},
    "gpu-loss-read": {"transfer/per-step-readback"},
    "gpu-fed": {"transfer/per-step-feed"},
    "gpu-fed-bytes": {"transfer/per-step-feed"},  # a quarter of the bytes, handed over by hand as well
    "gpu-small-copies": {"transfer/small-copies", "transfer/per-step-feed"},
    "gpu-one-copy": {"host/launch-bound"},
}
# Causes that no profile can tell of, whatever it holds.
NEVER = {
    "host/compile-in-loop", "host/elementwise-preprocessing", "host/frequent-validation", "host/garbage-collection",
    "host/heavy-callback", "host/miscounted-steps", "host/predict-in-loop", "input/oversized-shuffle",
    "input/shuffle-fill", "machine/limited-host", "numerics/nonfinite-loss", "startup/slow-startup",
}  # fmt: skip
ON_CPU = {"transfer/per-step-readback"}  # nor of this, made on a CPU
# Where steps wait for input, a profile cannot rule out these: it knows neither lengths, all ops, nor the machine.
WAITING = {"input/uncached-input", "input/host-augmentation", "input/starved-host", "input/slow-storage"}
MOST_BYTES, MOST_BYTES_TOGETHER = 260_000, 2_400_000

each = pytest.mark.parametrize("name", MATRIX)


@cache
def told(name: str) -> tuple[Trace, Findings]:
    trace = profile_trace.load_profile([RECORDED / f"{name}.xplane.pb.gz"])
    return trace, diagnose_trace(trace)


def test_every_profile_is_in_the_matrix_and_small() -> None:
    files = {f.name.removesuffix(".xplane.pb.gz"): f.stat().st_size for f in RECORDED.glob("*.xplane.pb.gz")}
    assert set(files) == set(MATRIX)
    assert max(files.values()) <= MOST_BYTES
    assert sum(files.values()) <= MOST_BYTES_TOGETHER


@each
def test_exactly_these_causes_are_found(name: str) -> None:
    _, findings = told(name)
    assert {d.cause for d in findings.diagnoses} == MATRIX[name]


@each
def test_what_a_profile_cannot_tell_is_not_called_healthy(name: str) -> None:
    _, findings = told(name)
    unchecked = {u.cause for u in findings.unchecked}
    assert unchecked >= (NEVER if name.startswith("gpu-") else NEVER | ON_CPU)
    if MATRIX[name] & {"input/sequential-map", "input/python-input", "input/per-element-map", "input/unsharded-files"}:
        assert unchecked >= WAITING
    assert unchecked | set(findings.healthy) | {d.cause for d in findings.diagnoses} == {c.id for c in all_causes()}


@each
def test_steps_are_divided_without_a_rest(name: str) -> None:
    trace, _ = told(name)
    assert len(trace.steps) >= 2
    assert sum(trace.mean(c) for c in trace.categories) == pytest.approx(trace.step_ms, rel=1e-6)
    assert trace.cores >= 1


# What a step took without the profiler, in the same process; and those in which Python has no part.
TIMED_MS = {row["name"]: row["step_ms"] for row in map(json.loads, (RECORDED / "times.jsonl").read_text().splitlines())}
COMPUTING = [
    "gpu-healthy", "gpu-tf32", "gpu-float32", "gpu-convolution-float32", "gpu-convolution-tf32", "gpu-aligned",
    "gpu-unaligned", "gpu-single", "gpu-double", "gpu-elementwise-fused", "gpu-device-ops",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPUTING)
def test_a_step_of_a_device_that_its_host_runs_ahead_of_is_as_long_as_without_the_profiler(name: str) -> None:
    trace, _ = told(name)
    assert "with the times of the device" in trace.steps.source
    assert trace.step_ms == pytest.approx(TIMED_MS[name], rel=0.1)


# The other halves of the pairs, cured. Not these: where the profiler itself makes Python slow; and gpu-elementwise, of
# whose step of 54 kernels an unmarked profile shows a turn of nine.
CURES = {"gpu-float32": "gpu-tf32", "gpu-convolution-float32": "gpu-convolution-tf32", "gpu-double": "gpu-single",
         "gpu-tf32": "gpu-healthy", "gpu-convolution-tf32": "gpu-convolution",
         "gpu-unaligned": "gpu-aligned", "gpu-host-ops": "gpu-device-ops",
         "gpu-loss-read": "gpu-loss-kept"}  # fmt: skip


@pytest.mark.parametrize("name", CURES)
def test_what_the_cure_gave_lies_in_the_range_foretold(name: str) -> None:
    saving = told(name)[1].diagnoses[0].saving
    assert saving.low <= TIMED_MS[name] / TIMED_MS[CURES[name]] <= saving.high


def test_kernels_bear_their_layers_shapes_and_formats() -> None:
    device = told("gpu-convolution-float32")[0].device
    assert device is not None
    shaped = "conv2d_1/conv_general_dilated:Conv2D#shape=(float[256,96,96,64];float[3,3,64,64])#"
    assert device.by_op[shaped][0] == pytest.approx(5.37, abs=0.01)
    assert any(text.startswith("gradient_tape/conv2d_5/") for text in device.by_op)
    assert device.matrix_ms["float32"] > 0.8 * device.kernel_ms
    assert told("gpu-convolution")[0].device.tensor_core_ms > 3.9  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["gpu-unaligned", "gpu-elementwise", "gpu-double", "gpu-float32"])
def test_a_profile_names_the_users_line(name: str) -> None:
    """Where the op was written; of Keras' layers where the fit was called."""
    [first, *_] = told(name)[1].diagnoses
    assert {Path(place.file).name for place in first.evidence.where} == {"make_gpu.py"}


@pytest.mark.parametrize("name", [n for n in MATRIX if n.startswith("gpu-")])
def test_at_least_nine_tenths_of_the_idle_time_get_a_name(name: str) -> None:
    device = told(name)[0].device
    assert device is not None
    assert device.idle.get("unattributed", 0.0) <= 0.1 * max(device.idle_ms, 1e-9)
