"""Values that are read back: by the script, and not by TensorFlow for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.trace import build

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
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")
    done = running.recorded(tmp_path / "run", running.write(tmp_path, SCRIPT), windows=False)
    assert done.code == 0, done.err
    trace = build.load(done.folder)
    read = trace.lane("readback")
    places = [trace.names[int(n)].place for n in read.name]
    assert {place.line for place in places if place is not None} == {11}
    assert len(read) == 40
