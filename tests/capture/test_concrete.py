"""Steps that call one graph of a function, which the script asked for by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.trace.loading import recording_trace

from . import running

pytestmark = pytest.mark.tensorflow

SCRIPT = """
import tensorflow as tf

w = tf.Variable(tf.ones((8, 8)))

@tf.function
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

@tf.function
def look(x):
    return tf.reduce_sum(x @ w)

steps = {rows: train_step.get_concrete_function(tf.TensorSpec((rows, 8), tf.float32)) for rows in (4, 8, 16)}
again = train_step.get_concrete_function(tf.TensorSpec((8, 8), tf.float32))
assert again is steps[8]
data = tf.data.Dataset.range(8).map(lambda n: n + 1)
seen = look.get_concrete_function(tf.TensorSpec((8, 8), tf.float32))
for i in range(60):
    loss = steps[8](tf.ones((8, 8)))
    if i % 20 == 0:
        seen(tf.ones((8, 8)))
print("loss", float(loss), steps[8].structured_input_signature[0][0].shape)
"""


def test_calls_of_a_concrete_function_are_steps(tmp_path: Path) -> None:
    script = running.write(tmp_path, SCRIPT)
    done = running.recorded(tmp_path / "run", script)
    assert (done.code, done.out.startswith("loss")) == (0, True), done.err
    trace = recording_trace.load_recording(done.folder)
    assert len(trace.steps) == 60
    assert [p.line for p in (trace.steps.place,) if p is not None] == [
        SCRIPT.splitlines().index("    loss = steps[8](tf.ones((8, 8)))") + 1
    ]
    # A map's function has a graph too, which tf.data asks for.
    traced = [(e.name, e.data["nth"], e.data["training"]) for e in trace.events_of("trace")]
    assert traced == [("train_step", 1, True), ("train_step", 2, True), ("train_step", 3, True), ("look", 1, False)]


def test_what_asks_for_a_graph_fails_as_without_us(tmp_path: Path) -> None:
    text = (
        "import tensorflow as tf\n\n@tf.function\ndef f(x):\n    return x + missing\n\nf.get_concrete_function(1.0)\n"
    )
    done = running.recorded(tmp_path / "run", running.write(tmp_path, text))
    assert done.code == 1
    assert "missing" in done.err
    assert "slowtrain/" not in done.err.replace(str(tmp_path), "")
