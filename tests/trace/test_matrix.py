"""Every cause against profiles that were made with a known cause or without any: exactly these are found, no others.

What a profile shows comes from how it was made (recorded/make.py), never from what the tool says of it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from slowtrain.causes import all_causes
from slowtrain.diagnose import Findings, examine
from slowtrain.trace import Trace, profiled

RECORDED = Path(__file__).parent / "recorded"
COMPUTES = frozenset({"compute/compute-bound"})  # nothing is wrong with it: ops compute nearly all the time
MATRIX = {
    "tf-input-sequential-map": {"input/sequential-map"},
    "tf-input-parallel-map": COMPUTES,
    "tf-input-generator": {"input/python-input"},
    "tf-input-py-function": {"input/python-input"},
    "tf-input-arrays": COMPUTES,
    # Its map is sequential as well, while a core is idle: both were done on purpose.
    "tf-input-unprefetched": {"input/unprefetched-input", "input/sequential-map"},
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
    "jax-healthy": COMPUTES,
    "jax-input-bound": {"input/python-input"},
    "jax-readback": set(),
    "jax-retracing": {"host/retracing"},
    "jax-one-shape": COMPUTES,
    "jax-eager": {"host/eager-step"},
}
# Causes that no profile can tell of, made on a CPU, whatever it holds.
NEVER = {
    "host/compile-in-loop", "host/elementwise-preprocessing", "host/frequent-validation", "host/garbage-collection",
    "host/heavy-callback", "host/miscounted-steps", "host/predict-in-loop", "input/oversized-shuffle",
    "input/shuffle-fill", "machine/limited-host", "numerics/nonfinite-loss", "startup/slow-startup",
    "transfer/per-step-readback",
}  # fmt: skip
# Where steps wait for input, a profile cannot rule out these: it knows neither lengths, all ops, nor the machine.
WAITING = {"input/uncached-input", "input/host-augmentation", "input/starved-host", "input/slow-storage"}
MOST_BYTES, MOST_BYTES_TOGETHER = 60_000, 650_000

each = pytest.mark.parametrize("name", MATRIX)


@cache
def told(name: str) -> tuple[Trace, Findings]:
    trace = profiled.load([RECORDED / f"{name}.xplane.pb.gz"])
    return trace, examine(trace)


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
    assert unchecked >= NEVER
    if MATRIX[name] & {"input/sequential-map", "input/python-input", "input/per-element-map", "input/unsharded-files"}:
        assert unchecked >= WAITING
    assert unchecked | set(findings.healthy) | {d.cause for d in findings.diagnoses} == {c.id for c in all_causes()}


@each
def test_steps_are_divided_without_a_rest(name: str) -> None:
    trace, _ = told(name)
    assert len(trace.steps) >= 2
    assert sum(trace.mean(c) for c in trace.categories) == pytest.approx(trace.step_ms, rel=1e-6)
    assert trace.cores >= 1
