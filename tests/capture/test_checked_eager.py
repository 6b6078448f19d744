"""The first bad step of loops that run op by op: the op, its line and what it was given; training is untouched."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from slowtrain import diagnose
from slowtrain.trace.loading import recording_trace

from . import running
from .test_checked import checked

pytestmark = pytest.mark.tensorflow

LOOP = """
import numpy as np, tensorflow as tf, keras
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
y = x[:, :1].copy()
{data}
dense = keras.layers.Dense(4, name="hidden", use_bias=False)
drop = keras.layers.Dropout({drop})
head = keras.layers.Dense(1, name="head", use_bias=False)
dense.build((None, 8)); head.build((None, 4))
opt = keras.optimizers.Adam({rate})
history = []
for i in range({steps}):
    at = 16 * (i % 32)
    a, b = tf.constant(x[at:at + 16]), tf.constant(y[at:at + 16])
    with tf.GradientTape() as tape:
        p = head(drop(dense(a), training=True))
        {loss}
    history.append(float(loss))
    w = dense.trainable_variables + head.trainable_variables
    opt.apply_gradients(zip(tape.gradient(loss, w), w))
    print(i + 1, repr(history[-1]))
print("END", len(history), repr(float(tf.reduce_sum(w[0]))))
"""
SQUARE = "loss = tf.reduce_mean((p - b) ** 2)"
APART = """
import numpy as np, tensorflow as tf
w = tf.Variable([[1.0], [2.0]], name="weights")
x = np.ones((64, 2), "float32")
def forward(a):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.sqrt((a @ w) ** 2))
    return tape, loss
def update(tape, loss):
    return tape.gradient(loss, [w])
for i in range(12):
    if i == 7:
        x[3] = 0
    tape, loss = forward(x)
    w.assign_sub(0.001 * update(tape, loss)[0])
    print(i + 1, float(loss))
print("END")
"""
FIT = """
import numpy as np, tensorflow as tf, keras
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(960, 8)).astype("float32")
y = (x[:, 0] > 0).astype("float32")
{data}
def loss_of(t, p):
    {loss}
model = keras.Sequential([
    keras.layers.Input((8,)), keras.layers.Dense(8, name="hidden"), keras.layers.Dropout(0.2),
    keras.layers.Dense(1, activation="sigmoid", name="head"),
])
model.compile("adam", loss_of, run_eagerly=True)
log = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
print([repr(v) for v in log.history["loss"]])
print("END", repr(float(tf.reduce_sum(tf.abs(model.weights[0])))))
"""
TARGET = """
import numpy as np, tensorflow as tf
points = tf.Variable(np.random.default_rng(1).normal(size=(16, 2)).astype("float32"), name="points")
for i in range(12):
    target = tf.identity(points) if i >= 6 else tf.zeros((16, 2))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.sqrt(tf.reduce_sum((points - target) ** 2, axis=1)))
    points.assign_sub(0.05 * tape.gradient(loss, points))
    print(i + 1, float(loss))
print("END")
"""
NO_BLOCK = """
import tensorflow as tf
w = tf.Variable(1.0)
for i in range(5):
    tape = tf.GradientTape()
    tape.__enter__()
    loss = tf.math.log(w - i / 3)
    tape.__exit__(None, None, None)
    w.assign_sub(0.0 * tape.gradient(loss, w))
print("END")
"""
MEAN = "return tf.reduce_mean((tf.reshape(t, [-1]) - p[:, 0]) ** 2)"


def loop(data: str = "", loss: str = SQUARE, rate: float = 0.01, drop: float = 0.5, steps: int = 40) -> str:
    return LOOP.format(data=data, loss=loss, rate=rate, drop=drop, steps=steps)


SCRIPTS = {
    "logarithm": loop("y[405] = 0", loss="loss = tf.reduce_mean(tf.math.log(tf.abs((p + 3) * b)))"),
    "root": loop("x[96:112] = 0", loss="loss = tf.reduce_sum(tf.sqrt(tf.reduce_sum(p ** 2, axis=1)))", drop=0.0),
    "target": TARGET,
    "data": loop("x[100, 3] = np.nan"),
    "update": loop(loss="loss = tf.reduce_sum(tf.abs(p - b))", rate=3e38, drop=0.0, steps=1).replace(
        "keras.optimizers.Adam(3e+38)", "keras.optimizers.SGD(3e38)"
    ),
    "apart": APART,
    "run_eagerly": FIT.format(
        data="x[320:] *= 1000", loss="return -tf.reduce_mean(tf.math.log(1 - p[:, 0]) * tf.reshape(1 - t, [-1]))"
    ),
    "no block": NO_BLOCK,
    "subnormals": loop("small = np.full(1000, 1e-40, 'float32'); faint = tf.Variable(small)", steps=20).replace(
        "    history.append", "    faint.assign(small)\n    history.append"
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, running.Done]:
    scripts = {name: running.Script(text, on_nonfinite="report") for name, text in SCRIPTS.items()}
    scripts["stop"] = running.Script(SCRIPTS["data"], on_nonfinite="stop")
    return running.run_series(tmp_path_factory.mktemp("checked"), scripts)


def first_bad(done: running.Done) -> int:
    printed = [row.split() for row in done.out.splitlines() if row[:1].isdigit()]
    return next(int(row[0]) for row in printed if not math.isfinite(float(row[1].strip("'"))))


def test_a_logarithm_of_zero_is_named_with_the_numbers_that_dropout_drew(runs: dict[str, running.Done]) -> None:
    done = runs["logarithm"]
    assert done.code == 0, done.err
    assert "END 40" in done.out  # what the loop does beside the step was done once
    trace, found = checked(done)
    assert found["step"] == first_bad(done) == 26
    origin = found["origin"]
    assert (origin["type"], origin["site"][1]) == ("Log", running.line(SCRIPTS["logarithm"], "math.log"))
    assert origin["inputs"][0]["zero"] == 1
    cause = next(d for d in diagnose.diagnose_trace(trace).diagnoses if d.cause == "numerics/nonfinite-loss")
    assert "from step 26 on: Log" in cause.evidence.says
    assert "1e-7" in cause.prescriptions[0].says


def test_a_gradient_that_spoils_the_weights_is_found_one_step_back(runs: dict[str, running.Done]) -> None:
    done = runs["root"]
    _, found = checked(done)
    assert found["step"] == 7  # whose loss is finite
    assert first_bad(done) == 8
    origin = found["origin"]
    assert origin["gradient"]
    assert (origin["of"], origin["site"][1]) == ("Sqrt", running.line(SCRIPTS["root"], "tf.sqrt"))


def test_a_target_that_is_made_of_spoilt_weights_is_no_data(runs: dict[str, running.Done]) -> None:
    done = runs["target"]
    _, found = checked(done)
    assert found["step"] == 7
    assert first_bad(done) == 8
    origin = found["origin"]
    assert origin["gradient"]
    assert (origin["of"], origin["site"][1]) == ("Sqrt", running.line(TARGET, "tf.sqrt"))


def test_numbers_that_are_none_are_the_data_s(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["data"])
    assert (found["step"], found["origin"]["kind"], found["origin"]["name"]) == (7, "data", "a")
    assert found["origin"]["output"]["nan"] == 1


def test_an_update_that_overflows_is_named_as_such(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["update"])
    assert found["step"] == 1
    assert found["origin"]["variable"]
    assert found["origin"]["output"]["inf"] + found["origin"]["output"]["nan"]


def test_gradients_that_are_asked_for_in_another_function(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["apart"])
    assert found["step"] == 8
    assert found["origin"]["gradient"]
    assert found["origin"]["of"] == "Sqrt"
    assert found["origin"]["site"][1] == running.line(APART, "tf.sqrt")


def test_stop_ends_the_script_before_the_weights_are_spoilt(runs: dict[str, running.Done]) -> None:
    done = runs["stop"]
    assert done.code == 130
    assert "KeyboardInterrupt" in done.err
    assert done.out.splitlines()[-1].startswith("6 ")
    assert checked(done)[1]["stopped"]


def test_keras_with_run_eagerly(runs: dict[str, running.Done]) -> None:
    _, found = checked(runs["run_eagerly"])
    assert found["step"] == 21
    assert (found["origin"]["type"], found["origin"]["site"][1]) == (
        "Log",
        running.line(SCRIPTS["run_eagerly"], "math.log"),
    )


@pytest.mark.slow
def test_training_is_the_same_to_the_last_bit_before_and_after_the_report(tmp_path: Path) -> None:
    for place, bad in ("loop", loop("x[100, 3] = np.nan")), ("fit", FIT.format(data="x[900:] *= np.nan", loss=MEAN)):
        script = running.Script(loop() + FIT.format(data="", loss=MEAN) + bad, on_nonfinite="report")
        scripts = {"without": script._replace(recorded=False), "with": script}
        without, with_it = running.run_series(tmp_path / place, scripts).values()
        assert with_it.code == without.code == 0
        assert with_it.out.count("END") == 3
        assert with_it.out == without.out
        assert checked(with_it)[1]["origin"]["kind"] == "data"


def test_a_tape_without_its_with_statement_is_said_to_be_none_that_can_run_again(runs: dict[str, running.Done]) -> None:
    done = runs["no block"]
    assert "END" in done.out
    trace, found = checked(done)
    assert "with statement" in found["unknown"]
    cause = next(d for d in diagnose.diagnose_trace(trace).diagnoses if d.cause == "numerics/nonfinite-loss")
    assert any("@tf.function" in p.says for p in cause.prescriptions)


def test_what_the_variables_held_is_looked_through_and_the_cost_op_by_op_counts(runs: dict[str, running.Done]) -> None:
    trace = recording_trace.load_recording(runs["subnormals"].folder)
    assert trace.facts.get("faults", []) == []
    assert trace.fact("subnormals", "way") == "eager"
    assert trace.fact("subnormals", "most") == 1000
    assert set(trace.fact("subnormal_cost")) == {"function", "eager", "numpy"}
