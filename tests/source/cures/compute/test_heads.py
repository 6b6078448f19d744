from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.compute import heads

LAYER = """import tensorflow as tf
from tensorflow import keras
N, F, H = 7, 3, 4
class Parts(keras.layers.Layer):
    def build(self, shape):
        self.w = [self.add_weight(shape=(F, H), initializer="uniform") for _ in range(N)]
        self.b = [self.add_weight(shape=(H,), initializer="zeros") for _ in range(N)]
    def call(self, x):
        outs = []
        for i in range(N):
{body}
        return {join}
m = keras.Sequential([keras.Input((N, F)), Parts()])
"""
EINSUM = 'tf.einsum("bpi,pij->bpj", x, self.w)'


def together(body: str, join: str, old: str = "", new: str = "") -> str | None:
    """What becomes of ``call`` after its first line; None where it is left to a person."""
    rows = "\n".join(f"            {row}" for row in body.split("\n"))
    text = LAYER.replace("{body}", rows).replace("{join}", join).replace(old, new)
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    done = heads.together(parsed, 11)
    changed = edits.edited_text(parsed, done)
    compile(changed, "train.py", "exec")
    begin = changed.index("def call(self, x):\n") + len("def call(self, x):\n")
    return changed[begin : changed.index("m = keras")] if done else None


@pytest.mark.parametrize(
    ("body", "join", "new"),
    [
        ("outs.append(tf.matmul(x[:, i], self.w[i]))", "tf.stack(outs, 1)", f"outs = {EINSUM}\n        return outs"),
        ("outs.append(x[:, i, :] @ self.w[i] + self.b[i])", "tf.stack(outs, 1)",
         f"outs = {EINSUM} + self.b\n        return outs"),
        ("h = tf.matmul(x[:, i], self.w[i])\nh = tf.nn.relu(h + self.b[i])\nouts.append(h)", "tf.concat(outs, -1)",
         (f"h = {EINSUM}\n        h = tf.nn.relu(h + self.b)\n        outs = h\n"
         "        return tf.reshape(outs, [-1, N * H])")),
    ],
)  # fmt: skip
def test_parts_are_multiplied_at_once(body: str, join: str, new: str) -> None:
    assert together(body, join) == f"        {new}\n"


def test_weights_begin_as_the_lists_would() -> None:
    text = LAYER.replace("{body}", "            outs.append(x[:, i] @ self.w[i])").replace(
        "{join}", "tf.stack(outs, 1)"
    )
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    changed = edits.edited_text(parsed, heads.together(parsed, 11))
    assert (
        "self.w = self.add_weight(shape=(N, F, H), initializer=lambda shape, dtype=None: tf.stack("
        '[tf.keras.initializers.get("uniform")(shape[1:], dtype) for _ in range(shape[0])]))\n'
    ) in changed
    assert 'self.b = [self.add_weight(shape=(H,), initializer="zeros") for _ in range(N)]\n' in changed


PLAIN = "outs.append(x[:, i] @ self.w[i])"


@pytest.mark.parametrize(
    ("body", "join", "old", "new"),
    [
        (PLAIN, "tf.stack(outs, axis=0)", "", ""),
        (PLAIN, "tf.add_n(outs)", "", ""),
        (PLAIN, "tf.stack(outs, 1)", "keras.Input((N, F))", "keras.Input((N, T, F))"),
        (
            PLAIN,
            "tf.stack(outs, 1)",
            "self.w = [self.add_weight(shape=(F, H)",
            "self.w = [self.add_weight(shape=(F, H, 1)",
        ),
        (PLAIN, "tf.stack(outs, 1)", '"uniform") for _ in range(N)', '"uniform") for _ in range(N + 1)'),
        (PLAIN, "tf.stack(outs, 1)", "m = keras", "print(Parts().w)\nm = keras"),
        (PLAIN, "tf.stack(outs, 1)", "m = keras", "o = keras.optimizers.Adam(clipnorm=1.0)\nm = keras"),
        ("outs.append(x[:, i] @ self.w[i - 1])", "tf.stack(outs, 1)", "", ""),
        ("outs.append(x[:, 0] @ self.w[i])", "tf.stack(outs, 1)", "", ""),
        ("outs.append(tf.nn.softmax(x[:, i] @ self.w[i]))", "tf.stack(outs, 1)", "", ""),
        ("h = x[:, i] @ self.w[i]\nif i:\n    h = h + p\nouts.append(h)", "tf.stack(outs, 1)", "", ""),
        ("p = x[:, i] @ self.w[i] + p\nouts.append(p)", "tf.stack(outs, 1)", "", ""),
    ],
)
def test_other_loops_stay(body: str, join: str, old: str, new: str) -> None:
    assert together(body, join, old, new) is None


COMPILED = """model.compile(
    "adam",
    loss={loss},
)
model.fit(x, y)  # here
other.compile("adam", loss=[1])
"""


def test_very_many_outputs_are_told_of() -> None:
    parsed = source_file.parse_source("train.py", COMPILED.format(loss='{name: "mse" for name in SHOPS}'))
    assert parsed is not None
    assert "each of `SHOPS`" in heads.outputs(parsed, 5)
    assert heads.outputs(parsed, 3) == heads.outputs(parsed, 5)
    assert heads.outputs(parsed, 6) == ""
    few = source_file.parse_source("train.py", COMPILED.format(loss='"mse"'))
    assert few is not None
    assert heads.outputs(few, 5) == ""
