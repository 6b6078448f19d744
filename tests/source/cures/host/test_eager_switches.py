"""Switches that make graphs run eagerly are taken back where nothing needs them."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.eager_step import fix
from slowtrain.script.text import edits, source_file

# Name: the script before (with HERE at the line that a run named), and after; None where nothing may be edited.
CASES: dict[str, tuple[str, str | None]] = {
    "without_eager_compile 1": (
        """\
from tensorflow import keras
model.compile(optimizer='adam', loss='mae', metrics=['mse'], run_eagerly=True)  # HERE
""",
        """\
from tensorflow import keras
model.compile(optimizer='adam', loss='mae', metrics=['mse'])  # HERE
""",
    ),
    "without_eager_compile 2": (
        """\
model.compile(
    optimizer='adam',
    run_eagerly=True,  # for debugging  HERE
    loss='mae',
)
""",
        """\
model.compile(
    optimizer='adam',  # for debugging  HERE
    loss='mae',
)
""",
    ),
    "without_eager_compile 3": (
        """\
model.compile("adam", "mse", run_eagerly=DEBUG)  # HERE
""",
        """\
model.compile("adam", "mse")  # HERE
""",
    ),
    "without_eager_compile 4": (
        """\
model.compile("adam", "mse", run_eagerly=len(sys.argv) > 1)  # HERE
""",
        None,
    ),
    "without_eager_compile 5": (
        """\
import tensorflow as tf
class Cell(tf.keras.Model):
    def call(self, z):
        h = tf.zeros((z.shape[0], 10))
        for t in range(z.shape[1]):
            h = self.k(tf.concat([z[:, t], h], 1))
        return h
model = Cell()
model.compile("adam", "mse", run_eagerly=True)  # HERE
""",
        """\
import tensorflow as tf
class Cell(tf.keras.Model):
    def call(self, z):
        h = tf.zeros((tf.shape(z)[0], 10))
        for t in range(z.shape[1]):
            h = self.k(tf.concat([z[:, t], h], 1))
        return h
model = Cell()
model.compile("adam", "mse")  # HERE
""",
    ),
    "without_eager_compile 6": (
        """\
import tensorflow as tf
class Net(tf.keras.Model):
    def call(self, x):
        if x.numpy().max() > 1:
            x = x / 255.0
        return self.dense(x)
model = Net()
model.compile("adam", "mse", run_eagerly=True)  # HERE
""",
        None,
    ),
    "without_eager_compile 7": (
        """\
import numpy as np
def loss(y_true, y_pred):
    return np.mean((y_true - y_pred) ** 2)
model.compile("adam", loss, run_eagerly=True)  # HERE
""",
        None,
    ),
    "without_eager_compile 8": (
        """\
import tensorflow as tf
class Net(tf.keras.Model):
    def call(self, x):
        n, m = x.shape
        return self.dense(tf.reshape(x, (n * 2, m // 2)))
model = Net()
model.compile("adam", "mse", run_eagerly=True)  # HERE
""",
        None,
    ),
    "without_eager_switch 1": (
        """\
import tensorflow as tf
tf.config.run_functions_eagerly(True)
""",
        """\
import tensorflow as tf
tf.config.run_functions_eagerly(False)
""",
    ),
    "without_eager_switch 2": (
        """\
import tensorflow as tf
tf.config.experimental_run_functions_eagerly(run_eagerly=True)
""",
        """\
import tensorflow as tf
tf.config.experimental_run_functions_eagerly(run_eagerly=False)
""",
    ),
    "without_eager_switch 3": (
        """\
import tensorflow as tf
tf.config.run_functions_eagerly(True)
@tf.function
def step(x, y):
    loss = lossf(y, model(x))
    print("loss", loss.numpy())
    return loss
""",
        None,
    ),
    "without_eager_switch 4": (
        """\
import tensorflow as tf
tf.config.run_functions_eagerly(True)
predict(x)
tf.config.run_functions_eagerly(False)
""",
        """\
import tensorflow as tf
tf.config.run_functions_eagerly(False)
predict(x)
tf.config.run_functions_eagerly(False)
""",
    ),
    "without_eager_switch 6": (  # where the setting is written
        """\
import tensorflow as tf
CONFIG = {"runtime": {"threads": 0, "debug": True}}
def prepare(cfg):
    rt = cfg["runtime"]
    tf.config.run_functions_eagerly(rt["debug"])
prepare(CONFIG)
""",
        """\
import tensorflow as tf
CONFIG = {"runtime": {"threads": 0, "debug": False}}
def prepare(cfg):
    rt = cfg["runtime"]
    tf.config.run_functions_eagerly(rt["debug"])
prepare(CONFIG)
""",
    ),
    "without_eager_switch 7": (  # the setting is asked for elsewhere as well
        """\
import tensorflow as tf
CONFIG = {"debug": True}
tf.config.run_functions_eagerly(CONFIG["debug"])
if CONFIG["debug"]:
    check()
""",
        """\
import tensorflow as tf
CONFIG = {"debug": True}
tf.config.run_functions_eagerly(False)
if CONFIG["debug"]:
    check()
""",
    ),
    "without_eager_switch 8": (
        """\
import tensorflow as tf
CONFIG = {"debug": False}
tf.config.run_functions_eagerly(CONFIG["debug"])
""",
        None,
    ),
    "without_eager_switch 5": (
        """\
import tensorflow as tf
tf.config.run_functions_eagerly(DEBUG)
""",
        None,
    ),
}


def line(text: str) -> int:
    rows = text.splitlines()
    return next((i for i, row in enumerate(rows, 1) if "HERE" in row), 0)


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    before, after = CASES[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    if name.startswith("without_eager_switch"):
        found = fix.without_eager_switch(text)
    else:
        found = fix.without_eager_compile(text, line(before))
    assert (edits.edited_text(text, found) if found else None) == after
