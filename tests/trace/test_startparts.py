"""The start of a run by part: what is known of each, and what their sum is of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals.host import start_parts

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

RECORDED = Path(__file__).parents[3] / "shared/traces/tf-h200"
on_gpu = pytest.mark.skipif(not RECORDED.exists(), reason="../shared/traces/tf-h200 is absent")

STARTED = """
step    1111111111
device  kkkkkkkkkk
@phase import=3000 launch=200 build=400 compile=6000
@fact devices=[{"kind":"KIND"}]
@event loop name=fit start=0 end=9000 data={"jit_compile":JIT}
@event trace name=multi_step_on_iterator start=0 end=6000 data={"nth":1,"training":true,"trace_ns":2000000000}
"""


def parts(kind: str, jit: bool, more: str = "") -> dict[str, float]:
    trace = parse_drawing(STARTED.replace("KIND", kind).replace("JIT", str(jit).lower()) + more)
    return {part.says: part.ms for part in start_parts.parts_of_start(trace)}


@pytest.mark.parametrize(
    ("kind", "jit", "says"),
    [
        ("GPU", True, "compilation by XLA, autotuning and the first execution"),
        ("CPU", True, "compilation by XLA and the first execution"),
        ("GPU", False, "the first execution of the traced functions"),
    ],
)
def test_the_first_call_beyond_tracing(kind: str, jit: bool, says: str) -> None:
    assert parts(kind, jit)[says] == 4000.0
    assert parts(kind, jit)["tracing"] == 2000.0


def samples(leaf: str, start: float, count: int, file: str = "/ops/gen_math_ops.py") -> str:
    about = f'{{"leaf_file":"/site/tensorflow/python{file}"}}'
    return f"\n@span stack {leaf} start={start} end={start} times={count} every=50 detail={about}"


FOUND = samples("ensure_initialized", 1000, 1, "/eager/context.py")
BEFORE_TRACING = STARTED.replace("start=0 end=6000", "start=3000 end=9000")


@pytest.mark.parametrize(
    ("kind", "more", "ms"),
    [
        ("GPU", FOUND + samples("floor_mod", 1050, 20), 1000.0),
        ("CPU", FOUND + samples("floor_mod", 1050, 20), 0.0),
        ("GPU", samples("floor_mod", 1050, 20), 0.0),  # nothing says that a device was looked for before
        ("GPU", FOUND + samples("floor_mod", 1050, 2), 0.0),  # an op like any other
        ("GPU", FOUND + samples("load", 1050, 20, "/data.py"), 0.0),  # no op
        ("GPU", FOUND + samples("floor_mod", 3050, 20), 0.0),  # training had begun
    ],
)
def test_the_first_op_on_a_gpu(kind: str, more: str, ms: float) -> None:
    trace = parse_drawing(BEFORE_TRACING.replace("KIND", kind).replace("JIT", "true") + more)
    assert start_parts.first_op_on_gpu_ms(trace) == ms


def test_calls_after_the_first_step_are_no_start() -> None:
    later = '\n@event trace name=test_function start=9000 end=9900 data={"nth":1,"trace_ns":100000000}'
    assert parts("CPU", True, later) == parts("CPU", True)


@on_gpu
def test_a_real_start() -> None:
    trace = recording_trace.load_recording(RECORDED / "g_transformer_mixed")
    found = start_parts.start_numbers(trace)
    assert found["imports_ms"] == pytest.approx(10_345, rel=0.01)
    assert found["tracing_ms"] == pytest.approx(6_168, rel=0.01)
    assert found["compiling_ms"] == pytest.approx(18_323, rel=0.01)
    assert found["first_op_on_gpu_ms"] == pytest.approx(1_200, rel=0.2)
    assert start_parts.start_share(trace) == pytest.approx(sum(found.values()) / trace.run_ms)
    assert start_parts.start_sentence(trace).startswith("start-up is 86% of the run's 42.4 s: compilation by XLA")


@on_gpu
@pytest.mark.parametrize("folder", sorted(RECORDED.iterdir()) if RECORDED.exists() else [], ids=lambda p: p.name)
def test_no_start_is_longer_than_the_run(folder: Path) -> None:
    trace = recording_trace.load_recording(folder)
    assert sum(start_parts.start_numbers(trace).values()) <= trace.run_ms
