"""A tf.function made anew for each number that a loop counts down is made once, for a variable."""

from __future__ import annotations

from textwrap import dedent

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.host import byvariable

MADE = """
import tensorflow as tf

def make_step(model, optimizer, alpha, seen):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2) + alpha * tf.reduce_mean(model(x) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        seen.update_state(loss)

    return step
"""
LOOP = """
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam()
seen = tf.keras.metrics.Mean()
ds = tf.data.Dataset.from_tensor_slices((tf.zeros((99, 2)), tf.zeros((99, 1)))).batch(9)
for epoch in range(100):
    seen.reset_state()
    step = make_step(model, optimizer, 0.97 ** epoch, seen)
    for x, y in ds:
        step(x, y)
"""


def cured(text: str) -> str | None:
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    line = next(i for i, row in enumerate(text.split("\n"), 1) if "@tf.function" in row)
    made = byvariable.numbered(parsed, line)
    return edits.edited_text(parsed, made) if made else None


def test_the_number_becomes_a_variable_that_each_turn_assigns() -> None:
    text = cured(MADE + LOOP)
    assert text is not None
    head, _, tail = text.partition("for epoch in range(100):\n")
    assert head.endswith("alpha_now = tf.Variable(0.0, trainable=False)\n"
                         "step = make_step(model, optimizer, alpha_now, seen)\n")  # fmt: skip
    assert tail.startswith("    seen.reset_state()\n    alpha_now.assign(0.97 ** epoch)\n    for x, y in ds:\n")
    assert cured(text) is None  # nothing is made in the loop any more


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("0.97 ** epoch", "epoch + 1", id="a count, which may be one of turns or rows"),
        pytest.param("alpha * tf.reduce_mean", "tf.zeros([alpha]) * tf.reduce_mean", id="a shape"),
        pytest.param("        seen.update_state(loss)", "        if alpha > 0.5:\n            seen.update_state(loss)",
                     id="it decides what is traced"),
        pytest.param("alpha * tf.reduce_mean", "int(alpha * 2) * tf.reduce_mean", id="Python asks for it"),
        pytest.param("optimizer, 0.97", "tf.keras.optimizers.Adam(), 0.97", id="another optimizer in each turn"),
        pytest.param("    @tf.function", "    alpha = alpha * 2\n    @tf.function", id="worked on before"),
        pytest.param("    for x, y in ds:", "    kept.append(step)\n    step = step\n    for x, y in ds:", id="kept"),
    ],
)  # fmt: skip
def test_it_stays_where_the_number_is_more_than_a_factor(old: str, new: str) -> None:
    text = (MADE + LOOP).replace(old, new)
    assert text != MADE + LOOP
    assert cured(dedent(text)) is None


def test_both_train_to_the_same_weights() -> None:
    pytest.importorskip("tensorflow")
    text = MADE + LOOP.replace("range(100)", "range(3)").replace("tf.zeros((99, 2))", "tf.ones((99, 2))")
    after = cured(text)
    assert after is not None
    shown = []
    for one in (text, after):
        names: dict[str, object] = {}
        exec(compile("import tensorflow as tf\ntf.keras.utils.set_random_seed(1)\n" + one, "train.py", "exec"), names)
        shown.append(names["model"].get_weights())  # type: ignore[attr-defined]
    for before, now in zip(*shown, strict=True):
        assert before == pytest.approx(now, rel=1e-5)
