"""The causes of GPU steps against recordings of TensorFlow on an H200, whose truth was worked out by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from slowtrain.causes import cause_by_id
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Diagnosis, Effect
from slowtrain.recording import reader
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals.device import step_bound

RECORDED = Path(__file__).parents[3] / "shared/traces/tf-h200"
pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason="../shared/traces is absent")
LAUNCHES = "host/launch-bound"


@cache
def _trace(name: str) -> Trace:
    return recording_trace.build_recording_trace(reader.read_recording(RECORDED / name))


def _found(name: str, cause: str) -> Diagnosis | None:
    return next(iter(diagnose_trace(_trace(name), [cause_by_id(cause)]).diagnoses), None)


# What the cure is worth by hand, of the step: it has to lie in the range.
LAUNCH_BOUND = {
    "g_small_dense": (2.5, "steps_per_execution"),
    "s001_tfdata": (1.3, "model.fit"),
    "healthy_loop": (1.8, "jit_compile=True"),
    "g_big_embedding": (2.0, "steps_per_execution"),
}


@pytest.mark.parametrize("name", LAUNCH_BOUND)
def test_launching_is_found_however_short_the_run(name: str) -> None:
    worth, cure = LAUNCH_BOUND[name]
    found = _found(name, LAUNCHES)
    assert found is not None
    assert found.saving.low <= worth <= found.saving.high
    assert cure in found.prescriptions[0].says


@pytest.mark.parametrize("name", ["g_eager_loop", "g_transformer_mixed", "s001_feed", "s002_sequential"])
def test_what_waits_for_something_else_is_not_launch_bound(name: str) -> None:
    assert _found(name, LAUNCHES) is None


def test_xla_is_seen_in_the_profile() -> None:
    compiled = {
        n: step_bound.are_steps_xla_compiled(_trace(n)) for n in (*LAUNCH_BOUND, "handmade_conv", "g_eigen_on_host")
    }
    assert [n for n, yes in compiled.items() if not yes] == ["healthy_loop", "g_eigen_on_host"]


def test_fusing_spares_launches() -> None:
    found = _found("healthy_loop", "compute/unfused-elementwise")
    assert found is not None
    assert 1.6 <= found.saving.speedup <= 2.0
    assert [(Path(p.file).name, p.line) for p in found.evidence.where] == [("healthy_loop.py", 8)]
    assert "+@tf.function(jit_compile=True)" in (found.prescriptions[0].diff or "")


def test_an_op_on_the_host_has_its_line_and_a_cure_that_is_possible() -> None:
    found = _found("g_eigen_on_host", "compute/host-placed-ops")
    assert found is not None
    assert [p.line for p in found.evidence.where] == [15]
    assert found.saving.low <= 2.0 <= found.saving.high
    first = found.prescriptions[0]
    assert (first.effect, "eigvalsh(cov)" in (first.diff or "")) == (Effect.EQUIVALENT, True)
    assert not any("input pipeline" in p.says for p in found.prescriptions)


def test_what_xla_makes_of_a_loop_costs_the_start() -> None:
    """About 6 of the run's 28 s; of the step its computing alone, for XLA starts the ops."""
    found = _found("handmade_conv", "compute/handwritten-op")
    assert found is not None
    assert found.saving.scope == "run"
    assert found.saving.low <= 28.4 / 22.4 <= found.saving.high
