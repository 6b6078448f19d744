"""A loss that is no number is seen while a fit goes on; a metric that is none is not a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace

from . import running

pytestmark = pytest.mark.tensorflow

# Two hundred steps of some ten milliseconds, in one epoch.
FIT = """
import time
import numpy as np, tensorflow as tf
keras = tf.keras
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(1600, 8)).astype("float32")
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


def run(folder: Path, data: str = "", metrics: str = "[]", mode: str = "", eagerly: bool = False) -> running.Done:
    script = running.write(folder, FIT.format(data=data, metrics=metrics, eagerly=eagerly))
    env = {"SLOWTRAIN_ON_NONFINITE": mode} if mode else {}
    done = running.recorded(folder / "run", script, windows=False, env=env)
    assert done.err.count("Error") == 0, done.err
    return done


def loaded(done: running.Done) -> Trace:
    trace = recording_trace.load_recording(done.folder)
    assert trace.facts.get("faults", []) == []
    return trace


def test_the_loss_of_a_fit_is_seen_in_the_midst_of_an_epoch_beside_such_a_metric(tmp_path: Path) -> None:
    trace = loaded(run(tmp_path, "x[800:] = np.nan", metrics="[odd]"))
    (event,) = trace.events_of("nonfinite")
    assert event.name == "loss"
    assert 100 <= event.data["step"] <= 170


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_metric_that_is_no_number_is_no_loss_and_stops_nothing(tmp_path: Path, eagerly: bool) -> None:
    done = run(tmp_path, metrics="[odd]", mode="stop", eagerly=eagerly)
    assert done.code == 0, done.err
    assert "'odd': [nan]" in done.out
    trace = loaded(done)
    assert not [*trace.events_of("checked"), *trace.events_of("nonfinite")]


def test_of_a_loss_the_first_op_is_named_beside_such_a_metric(tmp_path: Path) -> None:
    trace = loaded(run(tmp_path, "x[800:, 3] = np.nan", metrics="[odd]", mode="report"))
    (event,) = trace.events_of("checked")
    assert (event.data["step"], event.data["origin"]["kind"]) == (101, "data")


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


def test_what_a_function_gives_that_does_not_train_is_no_loss(tmp_path: Path) -> None:
    done = running.recorded(tmp_path / "run", running.write(tmp_path, LOOP), windows=False)
    assert done.out.count("inf") == 100
    assert not list(loaded(done).events_of("nonfinite"))
