"""Python in a pipeline that AutoGraph has written anew: it is told by the script's own lines."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from slowtrain.capture.inspection import user_code
from slowtrain.trace.loading import recording_trace

from . import running

NESTED = """
    import numpy as np
    import tensorflow as tf

    def features(sizes):
        def encode(row):
            def grams(raw):
                total = 0.0
                for size in sizes:
                    for start in range(400):
                        total += size * start
                return np.float32(total)

            return tf.ensure_shape(tf.numpy_function(grams, [row], tf.float32), ())

        return encode

    weight = tf.Variable(1.0)
    data = tf.data.Dataset.range(4000).map(features((2, 3, 4))).batch(100)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weight * x)
        weight.assign_sub(1e-9 * tape.gradient(loss, weight))

    for x in data:
        step(x)
"""


@pytest.mark.tensorflow
def test_a_function_inside_the_function_of_a_map(tmp_path: Path) -> None:
    script = running.write(tmp_path, NESTED)
    done = running.recorded(tmp_path / "run", script, windows=False)
    assert done.code == 0, done.err
    trace = recording_trace.load_recording(done.folder)
    assert trace.fact("faults") is None
    lines = [line.strip() for line in textwrap.dedent(NESTED).splitlines()]
    (producer,) = trace.producers
    assert producer.place is not None
    assert (producer.place.file, lines[producer.place.line - 1]) == (str(script), "def grams(raw):")
    assert producer.qualname == "encode.<locals>.grams"
    most = producer.lines[:2]  # AutoGraph makes a function of the loop's body, and of handing its variables on
    assert {line.place.file for line in most} == {str(script)}
    assert {lines[line.place.line - 1] for line in most} == {"for start in range(400):", "total += size * start"}
    assert max(line.visits for line in most) > 100


def test_where_autograph_keeps_it_otherwise_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow.python.autograph.impl.api", ModuleType("api"))
    file = f"/tmp/{user_code.MARK}abc.py"
    user_code.read_origins(file)
    assert not user_code.has_origins(file)
    assert user_code.origin_line(file, 3) == user_code.origin_of_function(file, 3) == (file, 3)
