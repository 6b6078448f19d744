"""A step in which XLA compiled again for a smaller batch, of which no trace is written, is no steady step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slowtrain.columns.spans import Event, Name, Spans
from slowtrain.recording import reader
from slowtrain.recording.reader import Recording
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.run_division import attribution, recording_steps

RECORDED = Path(__file__).parents[3] / "shared/traces/tf-h200"
on_gpu = pytest.mark.skipif(not RECORDED.exists(), reason="../shared/traces/tf-h200 is absent")
EPOCH = 50  # steps
USUAL_MS, COMPILED_MS = 2.0, 900.0
ROWS_1600 = {"shape": [EPOCH * 32, 8]}
UNEVEN = {"shape": [EPOCH * 32 - 5, 8]}


def a_run(
    long: dict[int, float], jit: bool = True, data: dict[str, Any] | None = None, nodes: Any = (), windowed: int = -1
) -> Recording:
    """Three epochs of ``fit``; ``long``: ms of steps that are not as usual."""
    ms = np.full(3 * EPOCH, USUAL_MS)
    for number, taken in long.items():
        ms[number] = taken
    start = 100.0 + np.concatenate(([0.0], np.cumsum(ms)[:-1]))
    end = start + ms
    none = np.zeros(len(ms), dtype=np.int64)
    spans = {"step": Spans(start, end - 0.1, none, none + 1, none)}
    fit = {"nested": 0, "jit_compile": jit, "model": 7, "data": data or {}, "batch_size": None}
    events = [Event("loop", "fit", 99.0, float(end[-1]) + 1, fit)]
    events += [Event("epoch", "begin", float(start[i]) - 1e-3, float(start[i])) for i in range(0, 3 * EPOCH, EPOCH)]
    events += [Event("pipeline", "1", 99.0, 99.0, {"nodes": nodes})] if nodes else []
    if windowed >= 0:
        events += [Event("window", "profile", float(start[windowed - 5]), float(end[windowed + 5]))]
    facts = {"end_ns": int(1e12)}
    return Recording(Path("x"), (Name("step", "train"),), spans, 1, tuple(events), facts, end_ms=float(end[-1]) + 1)


LAST = {EPOCH - 1: COMPILED_MS}
BOOKED_MS = pytest.approx(COMPILED_MS - USUAL_MS, abs=0.2)  # an epoch's last step ends with its call


def compile_ms(raw: Recording) -> float:
    return attribution.run_phases(raw, recording_steps.find_steps(raw)).ms("compile")


def test_the_compilation_is_a_phase_of_the_run_and_no_steady_step() -> None:
    raw = a_run(LAST, data=UNEVEN)
    found = recording_steps.find_steps(raw)
    assert not found.steady[EPOCH - 1]
    assert found.mean_ms == pytest.approx(USUAL_MS, abs=0.01)
    assert compile_ms(raw) == BOOKED_MS


def test_also_where_a_window_of_the_profiler_holds_the_step() -> None:
    assert compile_ms(a_run(LAST, data=UNEVEN, windowed=EPOCH - 1)) == BOOKED_MS


@pytest.mark.parametrize(
    ("long", "jit", "data"),
    [
        (LAST, False, UNEVEN),  # nothing is compiled for a shape
        (LAST, True, ROWS_1600),  # all batches are of one size
        ({EPOCH - 10: COMPILED_MS}, True, UNEVEN),  # in the midst of an epoch
        ({EPOCH - 1: COMPILED_MS, 2 * EPOCH - 1: COMPILED_MS}, True, UNEVEN),  # a shape is compiled once
        ({EPOCH - 1: 15 * USUAL_MS}, True, UNEVEN),  # too short for a compilation
    ],
)
def test_other_long_steps_are_no_compilation(long: dict[int, float], jit: bool, data: dict[str, Any]) -> None:
    assert compile_ms(a_run(long, jit, data)) == 0.0


def batched(count: int, static: bool = False) -> list[dict[str, Any]]:
    element = [{"shape": [32 if static else None, 8]}]
    return [
        {"op": "TensorSliceDataset", "inputs": [], "cardinality": count},
        {"op": "BatchDataset", "inputs": [0], "batch_size": 32, "element": element},
    ]


@pytest.mark.parametrize(
    ("nodes", "found"),
    [(batched(1595), True), (batched(1600), False), (batched(1595, True), False), (batched(-2), True)],
)
def test_the_pipeline_tells_whether_a_rest_is_left(nodes: list[dict[str, Any]], found: bool) -> None:
    assert bool(compile_ms(a_run(LAST, nodes=nodes))) is found


def calls(sizes: list[int], ms: list[float], jit: bool) -> Recording:
    """A function of the script's own, called with batches of these sizes."""
    start = 100.0 + np.concatenate(([0.0], np.cumsum(ms)[:-1]))
    end = start + np.array(ms)
    none = np.zeros(len(ms), dtype=np.int64)
    spans = {"function": Spans(start, end - 0.1, none, none + 1, np.array(sizes))}
    about = {"site": ["train.py", 9], "file": "train.py", "line": 3}
    traced = {**about, "nth": 1, "training": True, "jit_compile": jit}
    events = (Event("trace", "step", 100.0, 101.0, traced),)
    name = Name("function", "step", about)
    return Recording(Path("x"), (name,), spans, 1, events, {"end_ns": int(1e12)}, end_ms=float(end[-1]))


@pytest.mark.parametrize(("jit", "found"), [(True, True), (False, False)])
def test_the_first_batch_of_another_size(jit: bool, found: bool) -> None:
    sizes, ms = [32] * 120, [USUAL_MS] * 120
    sizes[59] = sizes[119] = 7
    ms[59] = COMPILED_MS
    assert bool(compile_ms(calls(sizes, ms, jit)) > COMPILED_MS / 2) is found


@on_gpu
def test_the_mean_of_a_real_run_is_that_of_its_steps() -> None:
    found = recording_trace.load_recording(RECORDED / "g_big_embedding")
    assert found.steps.mean_ms == pytest.approx(found.steps.quantile_ms(0.5), rel=0.05)
    assert found.run.ms("compile") == pytest.approx(2723 + 1106, rel=0.02)
    assert reader.read_recording(RECORDED / "g_big_embedding").end_ms == pytest.approx(
        sum(p.ms for p in found.run.parts)
    )
