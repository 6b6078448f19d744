"""Every way to train: the steps are found, and everything adds up. One process runs all, for all tests."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slowtrain.model import Category
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from . import running
from .loops import LOOPS

pytestmark = pytest.mark.tensorflow

Get = Callable[[str], Trace]


@pytest.fixture(scope="module")
def keras_version() -> str:
    return importlib.metadata.version("keras").split(".")[0]


@pytest.fixture(scope="module")
def trace_of(keras_version: str, tmp_path_factory: pytest.TempPathFactory) -> Get:
    loops = {name: loop for name, loop in LOOPS.items() if keras_version in loop.versions.split()}
    scripts = {name: running.Script(loop.script, windows=True) for name, loop in loops.items()}
    runs = running.run_series(tmp_path_factory.mktemp("loops"), scripts)

    @functools.cache
    def get(name: str) -> Trace:
        if name not in loops:
            pytest.skip(f"not in Keras {keras_version}")
        assert runs[name].code == 0, runs[name].err
        return recording_trace.load_recording(runs[name].folder)

    return get


each_loop = pytest.mark.parametrize("name", LOOPS)


@each_loop
def test_steps_are_found_and_counted(name: str, trace_of: Get) -> None:
    trace = trace_of(name)
    assert (trace.steps.source, len(trace.steps)) == (LOOPS[name].source, LOOPS[name].steps)
    assert (trace.steps.ms > 0).all()
    assert (trace.steps.start_ms[1:] >= trace.steps.end_ms[:-1] - 1e-6).all()


@each_loop
def test_the_recorder_had_no_faults(name: str, trace_of: Get) -> None:
    assert trace_of(name).facts.get("faults", []) == []


@each_loop
def test_phases_add_up_to_the_run(name: str, trace_of: Get) -> None:
    trace = trace_of(name)
    assert sum(p.ms for p in trace.run.parts) == pytest.approx(trace.run_ms, rel=1e-3)
    assert all(p.ms >= 0 for p in trace.run.parts)


@each_loop
def test_categories_add_up_to_each_step(name: str, trace_of: Get) -> None:
    trace = trace_of(name)
    total = np.sum(list(trace.categories.values()), axis=0)
    assert np.allclose(total, trace.steps.ms, rtol=1e-3)
    assert all((column >= 0).all() for column in trace.categories.values())


@each_loop
def test_little_is_unattributed_where_there_was_a_window(name: str, trace_of: Get) -> None:
    trace = trace_of(name)
    if LOOPS[name].windowed:
        assert trace.kernels is not None
    # TensorFlow 2.15's profiler does not see what XLA computes on a CPU: that stays unattributed.
    if trace.kernels is not None and trace.kernels.busy_ms:
        assert trace.share(Category.UNATTRIBUTED) < 0.1


@pytest.mark.bench
def test_the_recorders_thread_is_cheap(tmp_path: Path) -> None:
    """Its start apart, which reads the facts of the machine: see test_cost for that.

    Of a run of five seconds it took 5 %; of one of two, in which its first looks come at every chance, up to 10.
    """
    script = LOOPS["fit generator"].script.replace("batches(700)", "batches(4000)").replace("epochs=7", "epochs=40")
    assert "batches(4000), steps_per_epoch=100, epochs=40" in script
    done = running.recorded(tmp_path / "run", running.write(tmp_path, script))
    cost = recording_trace.load_recording(done.folder).facts["recorder"]
    assert cost["thread_cpu_s"] < 0.1 * cost["wall_s"]
