"""``slowtrain memory`` of Keras on JAX as far as a CPU goes: its profile is made, its variables are counted."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from slowtrain.capture.windows.allocation_requests import JAX_REQUESTS_FOLDER
from slowtrain.memory import allocation_record
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.batch_sizes.batch_probe import BatchProbes, NoRecord
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Script

from . import probing

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("jax", "keras"))), reason="Keras and JAX are not installed here"
)

ENDS_WITH_ITS_STEPS = """
    import keras
    import numpy as np
    model = keras.Sequential([keras.layers.Input((32,)), keras.layers.Dense(4)])
    model.compile("adam", "mse")
    model.fit(np.zeros((24, 32), "float32"), np.zeros((24, 4), "float32"), batch_size=8, verbose=0)
"""


def test_on_a_cpu_no_memory_is_known_but_what_variables_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    script = probing.write(tmp_path, ENDS_WITH_ITS_STEPS)
    bench = Bench(Script(str(script)), tmp_path / "runs", time.monotonic() + 120)
    sizing = BatchProbes(bench)
    with pytest.raises(NoRecord, match="computes with JAX"):
        sizing.first()
    assert sizing.own == 8
    trace = recording_trace.load_recording(bench.folder / "probe-1")
    assert not trace.fact("faults")
    found = trace.fact("variables")
    weights = (32 * 4 + 4) * 4
    assert found["trained"] == weights
    assert 2 * weights <= found["optimizer"] <= 2 * weights + 16, "two slots, a count and a rate"
    assert trace.fact("allocator") is None
    file = allocation_record.find_profile(bench.folder / "probe-1" / JAX_REQUESTS_FOLDER)
    assert file is not None
    assert allocation_record.read_records(file) == {}, "JAX on a CPU has no allocator that tells"
