"""What can be said of somebody's profile: nothing is called healthy that a profile cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slowtrain.causes import Cause, all_causes
from slowtrain.columns.device import Device, DirectionCopies
from slowtrain.diagnose import Findings, diagnose_trace
from slowtrain.model import Category, Signal
from slowtrain.trace.loading import profile_trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

TRACES = Path(__file__).parents[3] / "shared" / "traces"
CAUSES = all_causes()
LEAST = {Signal.STEPS, Signal.KERNELS, Signal.DEVICE, Signal.INPUT}  # what every profile of a GPU with host threads has
MISSING = " ".join(str(s) for s in Signal if s not in LEAST)
# A GPU that computes nearly all the time, in mixed precision, in TensorFlow's own ops.
BUSY = f"""
step    1111111111
device  kkkkkkkkk.
dispatch .........d
@missing {MISSING}
@fact profile=true devices=[{{"kind":"GPU"}}]
@kernels busy=9 ms=9 ops={{"m/dense/MatMul:MatMul":[9,6]}}
@device busy=9 ms=9 kernels=60 idle={{"dispatch":1}} matrix={{"float16":8}} tensor=8 precision={{"float16":9}}
& ops={{"m/dense/MatMul:MatMul#shape=(half[64,512];half[512,512])#":[8,6],"m/dense/Relu:Relu":[1,6]}}
& copies={{"h2d":[2,4e5,0.1,0]}} facts={{"compute_cap_major":7,"compute_cap_minor":0}}
"""
# The same of which the profile tells nothing but that the device idles while Python runs.
DARK = f"""
step    1111111111
python  ppppppppp.
device  .........k
@missing {MISSING}
@fact profile=true devices=[{{"kind":"GPU"}}]
@kernels busy=1 ms=1
@device busy=1 ms=1 kernels=60 idle={{"python":9}}
"""
ONLY_RECORDED = {
    "compute/handwritten-op", "compute/small-batch", "compute/dense-embedding-update", "startup/slow-startup",
    "host/compile-in-loop", "host/predict-in-loop", "host/heavy-callback", "host/frequent-validation",
    "host/elementwise-preprocessing", "host/miscounted-steps", "host/garbage-collection", "numerics/nonfinite-loss",
    "machine/gpu-unseen", "machine/library-mismatch", "machine/busy-gpu", "machine/throttled-clock",
    "machine/faulty-gpu", "machine/slowing-setting", "startup/jit-from-ptx",
    "machine/limited-host", "input/oversized-shuffle", "input/shuffle-fill", "transfer/slow-link",
}  # fmt: skip
IN_THE_DARK = {
    "transfer/per-step-feed", "input/unprefetched-input", "input/python-input", "input/slow-storage",
}  # fmt: skip


def _cases(attribute: str) -> list[object]:
    drawings = [(c, i, d) for c in CAUSES for i, d in enumerate(getattr(c, attribute))]
    return [pytest.param(cause, drawing, id=f"{cause.id}-{i}") for cause, i, drawing in drawings]


@pytest.mark.parametrize(("cause", "drawing"), [*_cases("fires"), *_cases("quiet")])
def test_each_wanted_signal_alone_turns_the_answer(cause: Cause[Any], drawing: str) -> None:
    wanted = cause.wants(parse_drawing(drawing))
    assert wanted
    for signal in wanted:
        found = diagnose_trace(parse_drawing(f"{drawing}\n@missing {signal}"), [cause])
        assert (found.diagnoses, found.healthy) == ((), ())
        assert [u.cause for u in found.unchecked] == [cause.id]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c.id)
def test_of_a_recording_exactly_the_needs_are_wanted(cause: Cause[Any]) -> None:
    extra = {"compute/full-precision", "compute/unaligned-shapes", "compute/unfused-rnn", "compute/host-placed-ops",
             "compute/unfused-elementwise", "transfer/wide-input", "transfer/small-copies"}  # fmt: skip
    for drawing in (*cause.fires, *cause.quiet):
        trace = parse_drawing(drawing)
        # Where an array is seen to be slow nobody has to look at the variables as well; measured rates need no losses.
        known = trace.fact("profile") or trace.fact("subnormal_arrays") or Signal.RATES in cause.wants(trace)
        if not known:
            assert cause.wants(trace) == cause.needs or (cause.id in extra and cause.wants(trace) > cause.needs)


def test_a_busy_gpu_is_healthy_as_far_as_a_profile_can_tell() -> None:
    found = diagnose_trace(parse_drawing(BUSY))
    assert [d.cause for d in found.diagnoses] == ["compute/compute-bound"]
    assert {u.cause for u in found.unchecked} >= ONLY_RECORDED
    assert not {u.cause for u in found.unchecked} & {c.id for c in CAUSES if c.family == "transfer"} - ONLY_RECORDED


def test_an_idle_gpu_of_which_nothing_is_told_is_unchecked() -> None:
    found = diagnose_trace(parse_drawing(DARK))
    assert found.diagnoses == ()
    assert {u.cause for u in found.unchecked} >= ONLY_RECORDED | IN_THE_DARK


def test_names_that_tell_no_format_leave_precision_unchecked() -> None:
    drawing = BUSY.replace('matrix={"float16":8}', 'matrix={"unknown":8}')
    unchecked = {u.cause: u.missing for u in diagnose_trace(parse_drawing(drawing)).unchecked}
    for name in ("full-precision", "double-precision", "unaligned-shapes"):
        assert unchecked[f"compute/{name}"] == (str(Signal.MODEL),)


def test_a_compiled_program_without_ops_leaves_layers_unchecked() -> None:
    drawing = BUSY.replace("m/dense/MatMul:MatMul#shape=(half[64,512];half[512,512])#", "loop_fusion_1").replace(
        "m/dense/Relu:Relu", "fusion_2"
    )
    unchecked = {u.cause: u.missing for u in diagnose_trace(parse_drawing(drawing)).unchecked}
    assert unchecked["compute/unfused-rnn"] == (str(Signal.MODEL),)
    assert unchecked["compute/unaligned-shapes"] == (str(Signal.MODEL),)


def test_names_of_any_length_and_shape_make_short_sentences() -> None:
    hostile = {
        f"m/{'d' * 9999}/Mul:Mul": (5.0, 9.0),
        f"m/{'d' * 9999}/Tanh:Tanh": (5.0, 9.0),
        f"{'l' * 9999}/while/lstm_cell/MatMul:MatMul#shape=(half[3,33];half[33,{'9,' * 9999}1])#": (5.0, 99.0),
        f"#edge_name=edge_1_<script>{'x' * 9999}#": (1.0, 9.0),
        "a/Cast:Cast#shape=(double[4000000000,4000000000])#": (1.0, 1e9),
    }
    idle = {"dispatch": 1.0, "host-op": 3.0, "h2d": 2.0, "sync": 2.0}
    copies = {kind: DirectionCopies(20.0, 1e5, 1.0, 1.0) for kind in ("h2d", "d2h")}
    facts = {"compute_cap_major": 8, "compute_cap_minor": 0}
    device = Device("/device:GPU:0", "GPU", facts, 3, 10.0, 9.0, 9.0, 100.0, 1.0, {}, hostile, copies, idle,
                    matrix_ms={"float16": 5.0})  # fmt: skip
    trace = replace(parse_drawing(BUSY), device=device)
    waiting = {Category.HOST_OP: np.full(len(trace.steps), 3.0), Category.DEVICE: np.full(len(trace.steps), 7.0)}
    trace = replace(trace, categories={**trace.categories, **waiting})
    found = diagnose_trace(trace)
    assert {d.cause for d in found.diagnoses} >= {"compute/host-placed-ops", "compute/unfused-elementwise"}
    assert all(len(d.evidence.says) < 600 for d in found.diagnoses)


# -- profiles of real accelerators: what a person who opens them sees


def _real(name: str) -> Findings:
    file = TRACES / name
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    return diagnose_trace(profile_trace.load_profile([file]))


def test_bert_on_v100() -> None:
    """One step, of which the window holds dropout's masks and casts of weights, hardly any matrix product."""
    found = _real("tf-v100-bert/worker-0.xplane.pb")
    assert [d.cause for d in found.diagnoses] == ["compute/unfused-elementwise", "compute/compute-bound"]
    assert "dropout" in found.diagnoses[0].evidence.says
    assert {"transfer/wide-input", "host/launch-bound"} <= set(found.healthy)
    assert "compute/full-precision" in {u.cause for u in found.unchecked}  # its products come behind the window


@pytest.mark.parametrize(
    ("name", "causes"), [("attention", ["host/eager-step"]), ("conv", []), ("elementwise", ["host/eager-step"])]
)
def test_jax_on_mi300x(name: str, causes: list[str]) -> None:
    """Small programs started one by one: the device idles for most of the time."""
    found = _real(f"jax-mi300x/{name}.xplane.pb")
    assert [d.cause for d in found.diagnoses] == causes
    assert "compute/full-precision" in found.healthy  # its products are in bfloat16, or there are none
    assert "compute/unfused-elementwise" in found.healthy  # XLA fused what there was to fuse


def test_a_tpu_that_waits_for_copies_is_not_compute_bound() -> None:
    found = _real("tpu/tpu-inference.xplane.pb")
    assert found.diagnoses == ()
    assert "compute/full-precision" in {u.cause for u in found.unchecked}
