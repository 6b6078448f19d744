"""Edits of steps, calls and tensors in forms beside the plain ones: classes, other names, objects, results read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slowtrain.causes.drift.growing_step import fix
from slowtrain.causes.host.eager_step import compiled_steps as functions
from slowtrain.causes.host.predict_in_loop import fix as singlesteps
from slowtrain.model import Edit
from slowtrain.script.fixes.loops import traced_arguments
from slowtrain.script.fixes.models import epoch_steps
from slowtrain.script.text import edits, source_file

Found = Callable[[source_file.Source, int], list[Edit]]

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


def rate(text: source_file.Source, line: int) -> list[Edit]:
    return traced_arguments.pass_tensors(text, line, {"rate": "float"})


def validation(text: source_file.Source, line: int) -> list[Edit]:
    return epoch_steps.count_steps_in_batches(text, line, "validation_steps")


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
        singlesteps.replace_fit_with_history,
        HISTORY,
        [
            ("        hist = self", "        self.net.reset_metrics()\n        hist = self"),
            ("fit(x, y, batch_size=len(x), epochs=1, verbose=0)", "train_on_batch(x, y, return_dict=True)"),
            ('hist.history["loss"][0]', 'float(hist["loss"])'),
        ],
    ),
    "one step with its loss at once": (
        singlesteps.replace_fit_with_history,
        'total += model.fit(x=x, y=y, verbose=0).history["loss"][-1]  # HERE\n',
        [
            ("total += ", "model.reset_metrics()\ntotal += "),
            (
                'model.fit(x=x, y=y, verbose=0).history["loss"][-1]',
                'float(model.train_on_batch(x=x, y=y, return_dict=True)["loss"])',
            ),
        ],
    ),
    "newest rows": (fix.keep_newest_rows, QUEUE, [("keys], axis=0)", "keys], axis=0)[-queue.shape[0]:]")]),
    "newest rows in front": (
        fix.keep_newest_rows,
        QUEUE.replace("[queue, keys]", "[keys, queue]"),
        [("queue], axis=0)", "queue], axis=0)[:queue.shape[0]]")],
    ),
    "validation counted in samples": (validation, STEPS, [("len(data.val[0])", "len(data.val[0]) // BATCH")]),
}

# Forms that look alike, of which no edit is sure.
KEPT: dict[str, tuple[Found, str]] = {
    "another thing behind the star": (rate, STARRED.replace("a, rate)", "a, rate, more=None)")),
    "two stars": (rate, STARRED.replace("*batch, self", "*batch, *rest, self")),
    "inside the star": (rate, STARRED.replace("*batch, self.rate", "*batch")),
    "a declared signature": (
        traced_arguments.reduce_retracing,
        WRAPPED.replace("self._update)", "self._update, input_signature=SHAPES)", 1),
    ),
    "a model that reads the length": (
        traced_arguments.reduce_retracing,
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
    "the whole history": (singlesteps.replace_fit_with_history, HISTORY.replace('["loss"][0]', "")),
    "a validation's number": (singlesteps.replace_fit_with_history, HISTORY.replace('"loss"', '"val_loss"')),
    "callbacks": (singlesteps.replace_fit_with_history, HISTORY.replace("verbose=0", "callbacks=[c]")),
    "a series of fits": (
        singlesteps.replace_fit_with_history,
        'losses = [m.fit(x, y).history["loss"][0] for x, y in chunks]  # HERE\n',
    ),
    "a queue that begins empty": (fix.keep_newest_rows, QUEUE.replace("[cfg.bank, 8]", "[0, 8]")),
    "joined along columns": (fix.keep_newest_rows, QUEUE.replace("axis=0", "axis=1")),
    "joined twice": (fix.keep_newest_rows, QUEUE.replace("[queue, keys]", "[queue, queue]")),
    "a queue begun in the loop": (
        fix.keep_newest_rows,
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
