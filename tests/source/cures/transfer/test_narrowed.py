"""Bytes handed over as bytes, cast by the model; text in, text out, or no edit."""

from __future__ import annotations

import pytest

from slowtrain.causes.transfer.wide_input import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = """import keras
import numpy as np
import tensorflow as tf

x = np.random.randint(0, 256, (64, 8, 8, 3)).astype("uint8")
y = np.random.randint(0, 4, 64)


def scale(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


"""
MODEL = """model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4)])
model.compile("sgd", "mse")
"""
CAST = "tf.cast(a, tf.float32)"


def _edited(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    found = fix.cast_in_model(source, line)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new


def _script(pipeline: str, model: str = MODEL, end: str = "model.fit(ds)\n") -> str:
    return f"{HEAD}{pipeline}\n{model}{end}"


SLICES = "tf.data.Dataset.from_tensor_slices((x, y))"
CASTS = {
    "in steps": (
        f"ds = {SLICES}\nds = ds.map(scale, num_parallel_calls=2)  #@\nds = ds.batch(8).prefetch(2)",
        f"ds = {SLICES}\n#@\nds = ds.batch(8).prefetch(2)",
        "1 / 255.0",
    ),
    "multiplied": (
        f"ds = {SLICES}.batch(8).map(lambda a, b: ({CAST} * 0.5, b))  #@", f"ds = {SLICES}.batch(8)  #@", "0.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pipeline", "after", "scale"), CASTS.values(), ids=CASTS)
def test_the_model_casts(pipeline: str, after: str, scale: str) -> None:
    model = MODEL.replace("(8, 8, 3))", f"(8, 8, 3)), keras.layers.Rescaling({scale})")
    assert _edited(_script(pipeline)) == _script(after, model)


def test_without_an_input_it_is_the_first_layer() -> None:
    model = 'model = keras.Sequential([keras.layers.Dense(4)])\nmodel.compile("sgd", "mse")\n'
    new = _edited(_script(f"ds = {SLICES}.map(scale).batch(8)  #@", model))
    assert new is not None
    assert "Sequential([keras.layers.Rescaling(1 / 255.0), keras.layers.Dense(4)])" in new


STAYS = {
    "another one as floats": (f"ds = {SLICES}.map(scale)  #@\nother = {SLICES}", "model.fit(ds)\nmodel.predict(other)"),
    "asked with an array": (f"ds = {SLICES}.map(scale)  #@", "model.fit(ds)\nmodel.predict(x / 255.0)"),
    "called by itself": (f"ds = {SLICES}.map(scale)  #@", "model.fit(ds)\nmodel(x / 255.0)"),
    "worked on behind": (f"ds = {SLICES}.map(scale).map(lambda a, b: (a - a, b))  #@", "model.fit(ds)"),
    "more than a cast": (f"ds = {SLICES}.map(lambda a, b: ({CAST} - 1.0, b))  #@", "model.fit(ds)"),
    "the label as well": (f"ds = {SLICES}.map(lambda a, b: ({CAST}, b + 1))  #@", "model.fit(ds)"),
    "to half": (f"ds = {SLICES}.map(lambda a, b: (tf.cast(a, tf.float16), b))  #@", "model.fit(ds)"),
    "looked at": (f"ds = {SLICES}.map(scale)  #@", "model.fit(ds)\nfor a, b in ds: print(a)"),
    "looked at in parts": (f"ds = {SLICES}.map(scale)  #@\nfew = ds.take(1)", "model.fit(ds)"),
    "a step of its own": (f"ds = {SLICES}.map(scale)  #@", "model.fit(ds)\nwith tf.GradientTape() as t: pass"),
    "two models": (f"ds = {SLICES}.map(scale)  #@\nother = keras.Sequential([])", "model.fit(ds)"),
}  # fmt: skip


@pytest.mark.parametrize(("pipeline", "end"), STAYS.values(), ids=STAYS)
def test_what_is_not_in_sight_stays(pipeline: str, end: str) -> None:
    assert _edited(_script(pipeline, end=f"{end}\n")) is None
