"""Bytes cast in the step of a loop: text in, exact text out, or no edit; and the numbers are those of before."""

from __future__ import annotations

import pytest

from slowtrain.causes.transfer.wide_input import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = """import numpy as np
import tensorflow as tf

x = np.arange(64 * 4).reshape(64, 4).astype("uint8")
y = np.arange(64).astype("float32")
w = tf.Variable(tf.ones((4, 1)) * 0.1)


def scale(a, b):
    return tf.cast(a, tf.float32) / 255.0, b


@tf.function
def step(a, b):
    \"\"\"One step.\"\"\"
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.squeeze(a @ w, 1) - b) ** 2)
    w.assign_sub(0.001 * tape.gradient(loss, w))
    return loss


"""
SLICES = "tf.data.Dataset.from_tensor_slices((x, y))"
CAST = '    """One step."""\n    a = tf.cast(a, tf.float32) / 255.0\n'


def _edited(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    found = fix.cast_in_step(source, line)
    return edits.edited_text(source, found) if found else None


LOOPS = {
    "a loop": "for a, b in ds:\n    step(a, b)\n",
    "epochs, counted": (
        "for epoch in range(2):\n    for i, (a, b) in enumerate(ds):\n"
        "        loss = step(a, b)\n        print(i, float(loss))\n"
    ),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_the_step_casts(loop: str) -> None:
    before = f"{HEAD}ds = {SLICES}.batch(8).map(scale).prefetch(2)  #@\n{loop}"
    after = before.replace(".map(scale)", "").replace('    """One step."""\n', CAST)
    assert _edited(before) == after


STAYS = {
    "read beside the step": "for a, b in ds:\n    step(a, b)\n    print(a)\n",
    "another function too": "for a, b in ds:\n    step(a, b)\nstep(x[:8] / 255.0, y[:8])\n",
    "a plain function": "def other(a, b):\n    return a\nfor a, b in ds:\n    other(a, b)\n",
    "looked at": "few = ds.take(1)\nfor a, b in ds:\n    step(a, b)\n",
    "given to fit as well": "for a, b in ds:\n    step(a, b)\nm.fit(ds)\n",
    "as the second argument": "for a, b in ds:\n    step(b, a)\n",
}


@pytest.mark.parametrize("loop", STAYS.values(), ids=STAYS)
def test_what_is_read_elsewhere_stays(loop: str) -> None:
    assert _edited(f"{HEAD}ds = {SLICES}.batch(8).map(scale)  #@\n{loop}") is None


def test_the_numbers_stay() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed here")
    end = "for a, b in ds:\n    step(a, b)\n"
    before = f"{HEAD}ds = {SLICES}.batch(8).map(scale).prefetch(2)  #@\n{end}"
    after = _edited(before)
    assert after is not None
    weights = []
    for text in (before, after):
        names: dict[str, object] = {"__name__": "__main__"}
        exec(compile(text, "train.py", "exec"), names)
        weights.append(names["w"].numpy().ravel().tolist())  # type: ignore[attr-defined]
    assert weights[0] == pytest.approx(weights[1], rel=1e-6)
    assert weights[0] != pytest.approx([0.1] * 4, rel=1e-6)
