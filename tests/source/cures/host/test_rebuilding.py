"""Models built in every turn of a loop are built once where the turns stay the same."""

from __future__ import annotations

import pytest

from slowtrain.causes.host.compile_in_loop import model_hoisting
from slowtrain.script.text import edits, source_file

# Name: the script before (with HERE at the line that a run named), and after; None where nothing may be edited.
CASES: dict[str, tuple[str, str | None]] = {
    "a model of a function, compiled in the loop": (
        """\
import tensorflow as tf
def build():
    return tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
for train, test in folds.split(x):
    model = build()
    model.compile("adam", "mse")
    model.fit(x[train], y[train], verbose=0)  # HERE
    print(model.evaluate(x[test], y[test]))
""",
        """\
import tensorflow as tf
def build():
    return tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
model = build()
model.compile("adam", "mse")
model.optimizer.build(model.trainable_variables)
start_state = [v.numpy() for v in model.optimizer.variables]
for train, test in folds.split(x):
    model.set_weights(build().get_weights())
    for variable, value in zip(model.optimizer.variables, start_state):
        variable.assign(value)
    model.fit(x[train], y[train], verbose=0)  # HERE
    print(model.evaluate(x[test], y[test]))
""",
    ),
    "a function that compiles": (
        """\
import keras
def build():
    model = keras.Sequential([keras.layers.Dense(4, input_shape=(3,))])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    return model
def main():
    scores = []
    for k in range(5):
        model = build()  # new
        model.fit(x, y)  # HERE
        scores.append(model.evaluate(x, y))
""",
        """\
import keras
def build():
    model = keras.Sequential([keras.layers.Dense(4, input_shape=(3,))])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    return model
def main():
    scores = []
    model = build()  # new
    model.optimizer.build(model.trainable_variables)
    start_state = [v.numpy() for v in model.optimizer.variables]
    for k in range(5):
        model.set_weights(build().get_weights())
        for variable, value in zip(model.optimizer.variables, start_state):
            variable.assign(value)  # new
        model.fit(x, y)  # HERE
        scores.append(model.evaluate(x, y))
""",
    ),
    "sizes that differ": (
        """\
import keras
def build(units):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    model.compile("adam", "mse")
    return model
for units in (4, 8, 16):
    model = build(units)
    model.fit(x, y)  # HERE
""",
        None,
    ),
    "models that are kept": (
        """\
import keras
def build():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model
models = []
for k in range(4):
    model = build()
    model.fit(x, y)  # HERE
    models.append(model)
""",
        None,
    ),
    "a model without shapes": (
        """\
import keras
for k in range(4):
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y)  # HERE
""",
        None,
    ),
    "a session that is cleared": (
        """\
import keras
for k in range(4):
    keras.backend.clear_session()
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y)  # HERE
""",
        None,
    ),
    "an unknown model": (
        """\
import tensorflow as tf
for k in range(4):
    model = build()
    model.compile("adam", "mse")
    model.fit(x, y)  # HERE
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
    found = model_hoisting.hoist_model(text, line(before))
    assert (edits.edited_text(text, found) if found else None) == after


@pytest.mark.parametrize("name", [n for n, (_, after) in CASES.items() if after])
def test_windows_line_ends_stay(name: str) -> None:
    before, after = (str(one).replace("\n", "\r\n") for one in CASES[name])
    text = source_file.parse_source("train.py", before)
    assert text is not None
    assert edits.edited_text(text, model_hoisting.hoist_model(text, line(before))) == after
