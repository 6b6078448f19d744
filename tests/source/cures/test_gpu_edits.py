"""Scripts with the edits for a GPU, run on a processor: they train, and their numbers are what the labels promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from slowtrain.causes.startup.slow_startup import fix as start_fix
from slowtrain.causes.transfer.small_copies import fix
from slowtrain.model import Edit
from slowtrain.script.fixes.models import keras_calls, keras_models
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source
from tests.source.cures.executed import executed_names

pytestmark = pytest.mark.skipif(find_spec("tensorflow") is None, reason="TensorFlow is not installed here")
FIT = """import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(0)
x = np.random.rand(70, 4).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16).prefetch(2)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(ds, epochs=2, verbose=0)
result = [float(model.optimizer.iterations), *np.asarray(model(x[:2]), "float32").ravel().tolist()]
"""
LOOP = """import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(0)
x = np.random.rand(64, 4).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16).prefetch(2)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.SGD(0.1)


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(2):
    for a, b in ds:
        loss = step(a, b)
result = [float(loss), model(x[:2]).dtype.name]
"""
Cure = Callable[[Source], Sequence[Edit]]


def _results(tmp_path: Path, text: str, *cures: Cure) -> list[list[Any]]:
    """What the script gives, and what it gives with each cure."""
    import tensorflow as tf

    source = parse_source("train.py", text)
    assert source is not None
    texts = [text]
    for cure in cures:
        made = cure(source)
        assert made
        texts.append(edits.edited_text(source, made).replace("/GPU:0", "/CPU:0"))
    try:
        return [executed_names(one, tmp_path)["result"] for one in texts]
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def _line(text: str, word: str) -> int:
    return next(n for n, row in enumerate(text.split("\n"), 1) if word in row)


def test_a_fit(tmp_path: Path) -> None:
    plain, jit, no_jit, fewer, half = _results(
        tmp_path,
        FIT,
        keras_models.compile_steps_with_xla,
        lambda s: keras_calls.disable_xla(s, _line(FIT, "compile")),
        lambda s: start_fix.drop_remainder(s, _line(FIT, "model.fit")),
        lambda s: keras_models.use_mixed_precision(s, "mixed_bfloat16"),
    )
    assert jit == pytest.approx(plain, rel=1e-4)
    assert no_jit == pytest.approx(plain, rel=1e-4)
    assert (plain[0], fewer[0]) == (10, 8)  # of 70 samples 6 are left out of each epoch
    assert half[0] == 10
    assert half[1:] != pytest.approx(plain[1:], rel=1e-4)  # it changes training
    assert half[1:] == pytest.approx(plain[1:], abs=0.05)


def test_a_fit_that_is_told_its_steps(tmp_path: Path) -> None:
    """Only that one: of a data set without a length Keras counts one step too many in each epoch."""
    told = FIT.replace("prefetch(2)", "repeat()").replace("epochs=2", "epochs=2, steps_per_epoch=5")
    plain, ahead = _results(tmp_path, told, lambda s: fix.prefetch_to_device(s, _line(told, "model.fit")))
    assert ahead == pytest.approx(plain, rel=1e-6)
    source = parse_source("train.py", FIT)
    assert source is not None
    assert fix.prefetch_to_device(source, _line(FIT, "model.fit")) == []


def test_a_loop(tmp_path: Path) -> None:
    plain, ahead, jit, half = _results(
        tmp_path,
        LOOP,
        lambda s: fix.prefetch_to_device(s, _line(LOOP, "for a, b in ds")),
        keras_models.compile_steps_with_xla,
        lambda s: keras_models.use_mixed_precision(s, "mixed_bfloat16"),
    )
    assert ahead[0] == pytest.approx(plain[0], rel=1e-6)
    assert jit[0] == pytest.approx(plain[0], rel=1e-4)
    assert half[1] == "float32"
    assert half[0] != pytest.approx(plain[0], rel=1e-4)
    assert half[0] == pytest.approx(plain[0], abs=0.05)
