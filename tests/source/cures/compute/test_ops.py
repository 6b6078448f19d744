from __future__ import annotations

import pytest

from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.text import edits, source_file

HEAD = "import tensorflow as tf\nimport keras\nT = tf.Variable(tf.random.normal((V, D)))\n"


def looked_up(text: str) -> str | None:
    parsed = source_file.parse_source("train.py", HEAD + text)
    assert parsed is not None
    line = next(n for n, row in enumerate(parsed.text.split("\n"), 1) if "one_hot" in row)
    done = table_lookups.use_gather(parsed, line)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    return new.removeprefix(HEAD) if done else None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = tf.matmul(tf.one_hot(ids, depth=V, dtype=tf.float32), T)\n", "y = tf.gather(T, ids)\n"),
        ("h = tf.one_hot(ids, V)\ny = tf.linalg.matmul(h, T)\n", "y = tf.gather(T, ids)\n"),
        ("h = tf.one_hot(ids, V)\ny = tf.matmul(h, T)\nn = tf.reduce_sum(h)\n",
         "h = tf.one_hot(ids, V)\ny = tf.gather(T, ids)\nn = tf.reduce_sum(h)\n"),
        ("y = keras.ops.matmul(keras.ops.one_hot(ids, V), T)\n", "y = keras.ops.take(T, ids, axis=0)\n"),
        ("from keras import ops\ny = ops.matmul(ops.one_hot(tf.reshape(ids, [-1]), V), T)\n",
         "from keras import ops\ny = ops.take(T, tf.reshape(ids, [-1]), axis=0)\n"),
        (
            ("class E(keras.layers.Layer):\n    def build(self, s):\n        self.t = self.add_weight(shape=(V, D))\n"
            "    def call(self, x):\n        return tf.matmul(tf.one_hot(tf.cast(x, tf.int32), V), self.t)\n"),
            ("class E(keras.layers.Layer):\n    def build(self, s):\n        self.t = self.add_weight(shape=(V, D))\n"
            "    def call(self, x):\n        return tf.gather(self.t, tf.cast(x, tf.int32))\n"),
        ),
    ],
)  # fmt: skip
def test_products_with_one_hot_rows_become_look_ups(old: str, new: str) -> None:
    assert looked_up(old) == new


@pytest.mark.parametrize(
    "text",
    [
        "y = tf.matmul(tf.one_hot(ids, V, on_value=0.9), T)\n",
        "y = tf.matmul(tf.one_hot(ids, V, axis=1), T)\n",
        "y = tf.matmul(tf.one_hot(ids, V), T, transpose_a=True)\n",
        "y = tf.matmul(T, tf.one_hot(ids, V))\n",
        "y = tf.one_hot(ids, V) @ T\n",
        "y = tf.matmul(tf.one_hot(ids, V), unknown)\n",
        "B = tf.Variable(tf.zeros((2, V, D)))\ny = tf.matmul(tf.one_hot(ids, V), B)\n",
        "y = tf.einsum('bv,dv->bd', tf.one_hot(ids, V), T)\n",
        "y = tf.reduce_sum(tf.one_hot(ids, V) * p)\n",
        "loss = cce(tf.one_hot(y, 10), p)\n",
        "h = tf.one_hot(ids, V)\nids = ids + 1\ny = tf.matmul(h, T)\n",
    ],
)
def test_other_uses_of_one_hot_rows_stay(text: str) -> None:
    assert looked_up(text) is None


def first(text: str) -> str | None:
    parsed = source_file.parse_source("train.py", HEAD + text)
    assert parsed is not None
    done = table_lookups.gather_before_normalising(parsed)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    return new.removeprefix(HEAD) if done else None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("u = tf.nn.l2_normalize(T, axis=1)\na = tf.gather(u, i)\nb = tf.gather(u, j)\n",
         "a = tf.nn.l2_normalize(tf.gather(T, i), axis=-1)\nb = tf.nn.l2_normalize(tf.gather(T, j), axis=-1)\n"),
        ("a = tf.gather(tf.math.l2_normalize(T, -1, epsilon=1e-9), i)\n",
         "a = tf.math.l2_normalize(tf.gather(T, i), axis=-1, epsilon=1e-9)\n"),
        ("a = tf.nn.embedding_lookup(tf.tanh(T), ids=i)\n", "a = tf.tanh(tf.nn.embedding_lookup(T, i))\n"),
        ("h = tf.cast(T, tf.float16)\na = tf.gather(h, i)\n", "a = tf.cast(tf.gather(T, i), tf.float16)\n"),
        ("a = tf.gather(tf.nn.softmax(T), i)\n", "a = tf.nn.softmax(tf.gather(T, i), axis=-1)\n"),
    ],
)  # fmt: skip
def test_rows_are_looked_up_before_they_are_worked_on(old: str, new: str) -> None:
    assert first(old) == new


@pytest.mark.parametrize(
    "text",
    [
        "u = tf.nn.l2_normalize(T, axis=0)\na = tf.gather(u, i)\n",  # over all rows
        "u = tf.nn.l2_normalize(T)\na = tf.gather(u, i)\n",
        "u = tf.nn.l2_normalize(T, axis=1)\na = tf.gather(u, i)\ns = tf.reduce_sum(u)\n",
        "u = tf.nn.l2_normalize(T, axis=1)\na = tf.gather(u, i, axis=1)\n",
        "x = f()\na = tf.gather(tf.tanh(x), i)\n",
    ],
)
def test_work_that_needs_every_row_stays(text: str) -> None:
    assert first(text) is None
