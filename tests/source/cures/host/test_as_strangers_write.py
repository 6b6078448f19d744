"""Edits of steps, calls and tensors in forms beside the plain ones: classes, other names, objects, results read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slowtrain.model import Edit
from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import fielded, functions, kerascalls, layercalls, newest, retraced, singlesteps

Found = Callable[[source_file.Source, int], list[Edit]]

OBJECT = """\
from dataclasses import dataclass
import tensorflow as tf
@dataclass(frozen=True)
class Weights:
    kl: float
    steps: int
@tf.function  # HERE
def step(x, weights):
    return tf.reduce_mean(x) * weights.kl
def at(n):
    return Weights(0.1 * n, n)
for n, x in enumerate(ds):
    loss = step(x, at(n))
"""
TRAIN_STEP = """\
import keras
import tensorflow as tf
class Embedder(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True)))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        return {"loss": loss}
def run(model, ds):
    step = model.train_step
    for data in ds.take(9):
        logs = step(data)  # HERE
ds = tf.data.Dataset.from_tensor_slices((a, b)).batch(8)
run(Embedder(), ds)
"""
HISTORY = """\
class Online:
    def absorb(self, x, y):
        hist = self.net.fit(x, y, batch_size=len(x), epochs=1, verbose=0)  # HERE
        self.recent.append(hist.history["loss"][0])
"""
LAYER = """\
import numpy as np
from keras import layers
def encode(texts, vec):
    return np.stack([np.asarray(vec([t]))[0] for t in texts])  # HERE
vec = layers.TextVectorization(max_tokens=100, output_sequence_length=32)
ids = encode(read(), vec)
"""
ROWS = """\
import numpy as np
import keras
look = keras.layers.StringLookup(vocabulary=words)
rows = []
for word in table:  # HERE
    rows.append(look(np.array([word])).numpy()[0])
"""
QUEUE = """\
import tensorflow as tf
queue = tf.random.normal([cfg.bank, 8])
for q, k in pairs:
    loss, keys = step(q, k, queue)  # HERE
    queue = tf.concat([queue, keys], axis=0)
"""
STEPS = """\
import tensorflow as tf
BATCH = 32
class Data:
    def labelled(self, part):
        return tf.data.Dataset.from_tensor_slices(part).repeat().batch(BATCH)
def train(model, data):
    model.fit(data.labelled(data.train), validation_data=data.labelled(data.val),  # HERE
              validation_steps=len(data.val[0]))
"""
WRAPPED = """\
import tensorflow as tf
class Trainer:
    def __init__(self):
        self.update = tf.function(self._update)
    def _update(self, x, mask):  # HERE
        return self.net(x, mask=mask)
"""


def in_place(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def weights(text: source_file.Source, line: int) -> list[Edit]:
    return fielded.as_fields(text, line, "weights", "Weights")


def rate(text: source_file.Source, line: int) -> list[Edit]:
    return retraced.as_tensors(text, line, {"rate": "float"})


def validation(text: source_file.Source, line: int) -> list[Edit]:
    return kerascalls.counted_in_batches(text, line, "validation_steps")


STARRED = """\
import tensorflow as tf
class Agent:
    @tf.function  # HERE
    def update(self, s, a, rate):
        return rate * tf.reduce_mean(s - a)
    def learn(self, batch):
        return self.update(*batch, self.rate)
"""

# The cure, the script before, and what it replaces by what.
MADE: dict[str, tuple[Found, str, list[tuple[str, str]]]] = {
    "numbers of an object": (
        weights,
        OBJECT,
        [
            ("def step(x, weights)", "def step(x, weights_kl)"),
            ("* weights.kl", "* weights_kl"),
            (
                "    loss = step(x, at(n))",
                "    weights = at(n)\n    loss = step(x, tf.constant(weights.kl, tf.float32))",
            ),
        ],
    ),
    "numbers of an object that has a name": (
        weights,
        OBJECT.replace("step(x, at(n))", "step(x, weights=self.now)"),
        [
            ("def step(x, weights)", "def step(x, weights_kl)"),
            ("* weights.kl", "* weights_kl"),
            ("weights=self.now", "weights_kl=tf.constant(self.now.kl, tf.float32)"),
        ],
    ),
    "behind a star": (rate, STARRED, [("self.rate)", "tf.constant(self.rate, tf.float32))")]),
    "shapes of a method": (
        retraced.reduced,
        WRAPPED,
        [("tf.function(self._update)", "tf.function(self._update, reduce_retracing=True)")],
    ),
    "train_step by another name": (
        functions.compiled_step,
        TRAIN_STEP,
        [("    def train_step", "    @tf.function\n    def train_step")],
    ),
    "train_step by its own name": (
        functions.compiled_step,
        TRAIN_STEP.replace("logs = step(data)", "logs = model.train_step(data)"),
        [("    def train_step", "    @tf.function\n    def train_step")],
    ),
    "one step with its loss": (
        singlesteps.with_history,
        HISTORY,
        [
            ("        hist = self", "        self.net.reset_metrics()\n        hist = self"),
            ("fit(x, y, batch_size=len(x), epochs=1, verbose=0)", "train_on_batch(x, y, return_dict=True)"),
            ('hist.history["loss"][0]', 'float(hist["loss"])'),
        ],
    ),
    "one step with its loss at once": (
        singlesteps.with_history,
        'total += model.fit(x=x, y=y, verbose=0).history["loss"][-1]  # HERE\n',
        [
            ("total += ", "model.reset_metrics()\ntotal += "),
            (
                'model.fit(x=x, y=y, verbose=0).history["loss"][-1]',
                'float(model.train_on_batch(x=x, y=y, return_dict=True)["loss"])',
            ),
        ],
    ),
    "a layer for all": (
        layercalls.for_all,
        LAYER,
        [("np.stack([np.asarray(vec([t]))[0] for t in texts])", "np.array(vec(list(texts)))")],
    ),
    "a layer for all in a loop": (
        layercalls.for_all,
        ROWS,
        [
            (
                "for word in table:  # HERE\n    rows.append(look(np.array([word])).numpy()[0])",
                "# HERE\nrows.extend(np.array(look(list(table))))",
            )
        ],
    ),
    "newest rows": (
        newest.kept_as_long,
        QUEUE,
        [("keys], axis=0)", "keys], axis=0)[-queue.shape[0]:]")],
    ),
    "newest rows in front": (
        newest.kept_as_long,
        QUEUE.replace("[queue, keys]", "[keys, queue]"),
        [("queue], axis=0)", "queue], axis=0)[:queue.shape[0]]")],
    ),
    "validation counted in samples": (
        validation,
        STEPS,
        [("len(data.val[0])", "len(data.val[0]) // BATCH")],
    ),
}

# Forms that look alike, of which no edit is sure.
KEPT: dict[str, tuple[Found, str]] = {
    "an object handed on": (weights, OBJECT.replace("* weights.kl", "* scaled(weights)")),
    "an object's count": (weights, OBJECT.replace("weights.kl", "weights.steps")),
    "an object by default": (weights, OBJECT.replace("(x, weights)", "(x, weights=Weights(1.0, 1))")),
    "a number that is a shape": (weights, OBJECT.replace("tf.reduce_mean(x) * weights.kl", "tf.zeros([weights.kl])")),
    "an object made behind others": (weights, OBJECT.replace("step(x, at(n))", "step(next(it), at(n))")),
    "another thing behind the star": (rate, STARRED.replace("a, rate)", "a, rate, more=None)")),
    "two stars": (rate, STARRED.replace("*batch, self", "*batch, *rest, self")),
    "inside the star": (rate, STARRED.replace("*batch, self.rate", "*batch")),
    "a declared signature": (
        retraced.reduced,
        WRAPPED.replace("self._update)", "self._update, input_signature=SHAPES)", 1),
    ),
    "a model that reads the length": (
        retraced.reduced,
        WRAPPED + "class Net:\n    def call(self, x):\n        return x * x.shape[1]\n",
    ),
    "train_step that Keras calls": (
        functions.compiled_step,
        TRAIN_STEP.replace("    step = model.train_step\n", "").replace("logs = step(data)", "model.fit(ds)"),
    ),
    "train_step that reads a value": (
        functions.compiled_step,
        TRAIN_STEP.replace('return {"loss": loss}', 'return {"loss": float(loss)}'),
    ),
    "two epochs": (singlesteps.with_history, HISTORY.replace("epochs=1", "epochs=2")),
    "the whole history": (singlesteps.with_history, HISTORY.replace('["loss"][0]', "")),
    "a validation's number": (singlesteps.with_history, HISTORY.replace('"loss"', '"val_loss"')),
    "callbacks": (singlesteps.with_history, HISTORY.replace("verbose=0", "callbacks=[c]")),
    "a series of fits": (
        singlesteps.with_history,
        'losses = [m.fit(x, y).history["loss"][0] for x, y in chunks]  # HERE\n',
    ),
    "a layer that looks at all": (layercalls.for_all, LAYER.replace("TextVectorization", "BatchNormalization")),
    "a layer with a function": (layercalls.for_all, LAYER.replace("max_tokens=100", "standardize=own")),
    "ragged rows": (layercalls.for_all, LAYER.replace("max_tokens=100", "ragged=True")),
    "some of the texts": (layercalls.for_all, LAYER.replace("in texts]", "in texts if t]")),
    "more than the row": (layercalls.for_all, LAYER.replace("[0] for", "[0] + 1 for")),
    "two things in the loop": (layercalls.for_all, ROWS + "    count += 1\n"),
    "a queue that begins empty": (newest.kept_as_long, QUEUE.replace("[cfg.bank, 8]", "[0, 8]")),
    "joined along columns": (newest.kept_as_long, QUEUE.replace("axis=0", "axis=1")),
    "joined twice": (newest.kept_as_long, QUEUE.replace("[queue, keys]", "[queue, queue]")),
    "a queue begun in the loop": (
        newest.kept_as_long,
        QUEUE.replace("    loss", "    if late:\n        queue = tf.zeros([4, 8])\n    loss"),
    ),
    "batches of another size here": (
        validation,
        STEPS.replace("def train(model, data)", "def train(model, data, BATCH)"),
    ),
    "steps that are divided": (validation, STEPS.replace("len(data.val[0])", "len(data.val[0]) // 32")),
}


def line(text: str) -> int:
    return next(i for i, row in enumerate(text.splitlines(), 1) if "HERE" in row)


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    cure, before, pairs = MADE[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    found = cure(text, line(before))
    assert (edits.edited_text(text, found) if found else None) == in_place(before, *pairs)


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    cure, before = KEPT[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    assert cure(text, line(before)) == []
