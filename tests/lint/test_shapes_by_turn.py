"""Shapes that are another one in each turn of a loop, and those of which there are a few; what not every turn does."""

from __future__ import annotations

from textwrap import indent

import pytest

from . import spotted

LOOP = """
import math

rng = np.random.default_rng(0)
w = tf.Variable(tf.zeros([4, 1]))
words = [rng.normal(size=(int(n), 4)).astype("float32") for n in rng.integers(5, 500, 1000)]

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss

for word in words:
    longest = len(word)
    x = np.zeros((longest, 4), "float32")
    x[:len(word)] = word
    step(x)
"""
ROUNDED = ("-(-len(word) // 64) * 64", "math.ceil(len(word) / 64) * 64")
HELPER = """
rng = np.random.default_rng(0)
w = tf.Variable(tf.zeros([4, 1]))
rows = []

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    grads = tape.gradient(loss, [w])
    w.assign_sub(0.1 * grads[0])
    return loss, grads

def note(i, grads):
GUARD
    for g in grads:
        rows.append(float(tf.norm(g)))

for i in range(1000):
    loss, grads = step(rng.normal(size=(8, 4)).astype("float32"))
    note(i, grads)
"""


def causes(text: str) -> set[str]:
    return {one.cause for one in spotted.seen(spotted.HEAD + text)}


@pytest.mark.parametrize("rounded", ROUNDED)
def test_lengths_that_are_rounded_up_are_few(rounded: str) -> None:
    assert "host/retracing" not in causes(LOOP.replace("longest = len(word)", f"longest = {rounded}"))


def test_what_is_resized_has_the_size_that_is_asked_for() -> None:
    made = 'x = np.resize(np.concatenate([word, word]), (64, 4)).astype("float32")'
    text = LOOP.replace('x = np.zeros((longest, 4), "float32")\n    x[:len(word)] = word', made)
    assert "np.resize" in text
    assert "host/retracing" not in causes(text)
    assert "host/retracing" in causes(text.replace("(64, 4)", "(len(word), 4)"))


def test_what_is_read_every_fiftieth_step_is_not_read_in_each() -> None:
    def text(guard: str) -> str:
        return HELPER.replace("GUARD", indent(guard, "    "))

    assert "transfer/per-step-readback" in causes(text("pass"))
    assert "transfer/per-step-readback" not in causes(text("if i % 50:\n    return"))
