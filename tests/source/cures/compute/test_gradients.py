"""Gradients made dense by the script itself: left as rows under plain SGD, or left alone."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.compute import gradients

STEP = """import tensorflow as tf
opt = tf.keras.optimizers.{optimizer}
def step(x):
    with tf.GradientTape() as tape:
        loss = model(x)
    grads = tape.gradient(loss, model.trainable_variables)
    grads = [{each} for g in grads]
    {use}
"""
APPLY = "opt.apply_gradients(zip(grads, model.trainable_variables))"


def script(each: str, optimizer: str = "SGD(0.5)", use: str = APPLY) -> str:
    return STEP.format(each=each, optimizer=optimizer, use=use)


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    found = gradients.rows_kept(source)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize(
    ("each", "new"),
    [("tf.clip_by_norm(tf.convert_to_tensor(g), 1.0)", "tf.clip_by_norm(g, 1.0)"), ("tf.convert_to_tensor(g)", "g")],
)
def test_rows_stay_rows(each: str, new: str) -> None:
    assert changed(script(each)) == script(new)
    use = "opt.apply(grads, model.trainable_variables)"
    assert changed(script(each, use=use)) == script(new, use=use)


@pytest.mark.parametrize(
    "text",
    [
        script("tf.convert_to_tensor(g)", "SGD(0.5, momentum=0.9)"),
        script("tf.convert_to_tensor(g)", "Adam()"),
        script("tf.convert_to_tensor(g)", "SGD(0.5, clipnorm=1.0)"),
        script("tf.convert_to_tensor(g) * 2"),
        script("tf.norm(tf.convert_to_tensor(g))"),
        script("tf.convert_to_tensor(g)", use=f"print(grads)\n    {APPLY}"),
        script("tf.convert_to_tensor(g)").replace("tape.gradient(", "other("),
    ],
)
def test_other_gradients_stay(text: str) -> None:
    assert changed(text) is None
