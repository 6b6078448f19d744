"""A loss that is no number is seen while a fit goes on; a metric that is none is not a loss."""

from __future__ import annotations

import pytest

from slowtrain.model import Signal

from . import running

pytestmark = pytest.mark.tensorflow

# A hundred and twenty steps of some ten milliseconds, in one epoch.
FIT = """
import time
import numpy as np, tensorflow as tf
keras = tf.keras
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(960, 8)).astype("float32")
y = x[:, :1].copy()
{data}

def odd(t, p):
    return tf.reduce_sum(t * 0.0) / tf.reduce_sum(p * 0.0)

class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)

model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics={metrics}, run_eagerly={eagerly})
log = model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0, callbacks=[Waits()])
print("END", log.history)
"""


LOOP = """
import time
import tensorflow as tf
w = tf.Variable(1.0)

@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = (w - 0.5) ** 2
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

@tf.function
def psnr():
    return 1.0 / (w - w)

for i in range(100):
    train()
    time.sleep(0.01)
    print(float(psnr()))
"""

# Sixty steps, which are over before the watch comes twice.
QUICK = """
import tensorflow as tf
w = tf.Variable(tf.ones((8, 1)))

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.math.log(x @ w))
    w.assign_sub(tape.gradient(loss, w))
    return {returned}

for i in range(60):
    step(tf.random.uniform((16, 8)) - 0.5)
"""


def fit(data: str = "", metrics: str = "[odd]", eagerly: bool = False) -> str:
    return FIT.format(data=data, metrics=metrics, eagerly=eagerly)


SCRIPTS = {
    "loss": running.Script(fit("x[400:] = np.nan")),
    "metric": running.Script(fit(), on_nonfinite="stop"),
    "metric, eager": running.Script(fit(eagerly=True), on_nonfinite="stop"),
    "op": running.Script(fit("x[400:, 3] = np.nan"), on_nonfinite="report"),
    "no training": running.Script(LOOP),
    "returned": running.Script(QUICK.format(returned="loss")),
    "nothing returned": running.Script(QUICK.format(returned="None")),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, running.Done]:
    return running.run_series(tmp_path_factory.mktemp("losses"), SCRIPTS)


def test_the_loss_of_a_fit_is_seen_in_the_midst_of_an_epoch_beside_such_a_metric(runs: dict[str, running.Done]) -> None:
    (event,) = running.loaded(runs["loss"]).events_of("nonfinite")
    assert event.name == "loss"
    assert 50 <= event.data["step"] <= 110


@pytest.mark.parametrize("name", ["metric", "metric, eager"])
def test_a_metric_that_is_no_number_is_no_loss_and_stops_nothing(name: str, runs: dict[str, running.Done]) -> None:
    trace = running.loaded(runs[name])
    assert "'odd': [nan]" in runs[name].out
    assert not [*trace.events_of("checked"), *trace.events_of("nonfinite")]


def test_of_a_loss_the_first_op_is_named_beside_such_a_metric(runs: dict[str, running.Done]) -> None:
    (event,) = running.loaded(runs["op"]).events_of("checked")
    assert (event.data["step"], event.data["origin"]["kind"]) == (51, "data")


def test_what_a_function_gives_that_does_not_train_is_no_loss(runs: dict[str, running.Done]) -> None:
    assert runs["no training"].out.count("inf") == 100
    assert not list(running.loaded(runs["no training"]).events_of("nonfinite"))


@pytest.mark.parametrize(("name", "returned"), [("returned", True), ("nothing returned", False)])
def test_of_steps_that_return_nothing_nothing_is_known(
    name: str, returned: bool, runs: dict[str, running.Done]
) -> None:
    trace = running.loaded(runs[name])
    assert (Signal.LOSS in trace.signals) is returned
    assert [e.data["value"] for e in trace.events_of("nonfinite")] == ["nan"] * returned
