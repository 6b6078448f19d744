"""A stage of tf.data that takes longer for each element than for the one before, in a real run."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain import diagnose
from slowtrain.model import Evidence
from slowtrain.trace.loading import recording_trace

from . import running

pytestmark = [pytest.mark.tensorflow, pytest.mark.bench]

LOOP = """
import tensorflow as tf

def heavier(i):
    n = tf.cast(i, tf.int32) // 16 * 100 + 20000
    x = tf.random.stateless_uniform([n], [1, 2])
    return tf.reduce_sum(tf.sort(x)) / tf.cast(n, tf.float32)

def scaled(x):
    return x * 2.0

ds = tf.data.Dataset.range(16 * 300)
ds = ds.map(heavier)
ds = ds.map(scaled).batch(16).prefetch(1)
w = tf.Variable(1.0)

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(w * x)
    w.assign_sub(1e-6 * tape.gradient(loss, w))
    return loss

for x in ds:
    train_step(x)
"""


def test_the_stage_that_takes_longer_is_named(tmp_path: Path) -> None:
    gen = pytest.importorskip(
        "tensorflow.python.ops.gen_experimental_dataset_ops", reason="TensorFlow is not installed here"
    )
    if not hasattr(gen, "iterator_get_model_proto"):
        pytest.skip("this TensorFlow does not give its counters out")
    line = LOOP.splitlines().index("ds = ds.map(heavier)") + 1
    found: list[Evidence] = []
    for turn in range(3):  # seconds of a machine that others use may drown it
        done = running.recorded(tmp_path / f"run{turn}", running.write(tmp_path, LOOP), windows=False)
        assert done.code == 0, done.err
        trace = recording_trace.load_recording(done.folder)
        assert trace.facts.get("faults", []) == []
        found = [d.evidence for d in diagnose.diagnose_trace(trace).diagnoses if d.cause == "drift/growing-step"]
        if found and "; its tf.data stage" in found[0].says:
            break
    assert found
    assert f"; its tf.data stage Map of line {line} took " in found[0].says
    assert found[0].where[0].line == line
