"""Values that are read back: by the script, and not by TensorFlow for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.trace.loading import recording_trace

from . import running

pytestmark = pytest.mark.tensorflow

SCRIPT = """
    import tensorflow as tf

    w = tf.Variable(tf.random.normal((3, 1)))
    x = tf.random.normal((8, 2))
    optimizer = tf.keras.optimizers.SGD(0.01)
    for _ in range(40):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.concat([x, x[:, :1]], 1) @ w)  # the gradient of a mean asks for its axis
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        float(loss)
"""


def test_what_a_gradient_asks_for_itself_is_no_readback_of_the_script(tmp_path: Path) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, SCRIPT), windows=False)
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    read = trace.lane("readback")
    places = [trace.names[int(n)].place for n in read.name]
    assert {place.line for place in places if place is not None} == {11}
    assert len(read) == 40


EACH_STEP = """
    import numpy as np
    import tensorflow as tf

    w = tf.Variable(tf.random.normal((3, 1)))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    for _ in range(120):
        ds = tf.data.Dataset.from_tensor_slices(np.ones((8, 3), "float32")).batch(8)
        for x in ds:
            loss = step(x)
        float(loss)
"""


def test_a_data_set_made_in_each_step_is_no_readback_of_the_script(tmp_path: Path) -> None:
    """TensorFlow asks for its batch's size, the recorder for this and the length of a hundred of them."""
    done = running.recorded(tmp_path / "run", running.write(tmp_path, EACH_STEP), windows=False)
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    lines = [place.line for n in trace.lane("readback").name if (place := trace.names[int(n)].place) is not None]
    assert lines == [18] * 120
    assert len(list(trace.events_of("iterator"))) == 120
    described = [e.data["nodes"] for e in trace.events_of("pipeline")]
    assert len(described) == 100
    assert all([node["op"] for node in nodes] == ["TensorSliceDataset", "BatchDataset"] for nodes in described)
    assert {node["batch_size"] for *_, node in described} == {8}
