"""``tf.map_fn`` of a function that does the same to each row; others keep their loop."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.models import table_lookups
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

POOL = """import tensorflow as tf

class Pool:
    eps = 1e-5

    def describe(self, rows):
        c = rows.shape[-1]
        f = tf.reshape(rows, (-1, c))
        {middle}
        cov = tf.matmul(f, f, transpose_a=True) / tf.cast(tf.shape(f)[0], f.dtype)
        return {returned}

    def scaled(self, x):
        return tf.sign(x) * tf.sqrt(tf.abs(x) + self.eps)

    def call(self, x):
        return {called}
"""
CALLED = "tf.map_fn(self.describe, x)"


def pool(
    called: str = CALLED, middle: str = "f = f - tf.reduce_mean(f, axis=0)", returned: str = "self.scaled(cov)"
) -> str:
    return POOL.format(called=called, middle=middle, returned=returned)


def changed(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "map_fn(" in row)
    found = table_lookups.use_vectorized_map(source, line)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize(
    "called",
    [
        "tf.map_fn(self.describe, x, fn_output_signature=tf.float32, parallel_iterations=4)",
        "tf.map_fn(fn=self.describe, elems=x)",
    ],
)
def test_all_rows_at_once(called: str) -> None:
    assert changed(pool(called)) == pool("tf.vectorized_map(self.describe, x)")


def test_a_lambda() -> None:
    assert changed(pool("tf.map_fn(lambda r: tf.nn.relu(r), x)")) == pool(
        "tf.vectorized_map(lambda r: tf.nn.relu(r), x)"
    )


@pytest.mark.parametrize(
    "text",
    [
        pool(middle="f = f * tf.random.uniform(())"),
        pool(middle="f = self.dense(f)"),
        pool(middle="self.count = f"),
        pool(middle="seen.append(f)"),
        pool(middle="self.total.assign_add(f)"),
        pool(middle="if c > 3:\n            f = -f"),
        pool(middle="for _ in range(3):\n            f = -f"),
        pool(returned="cov if c else f"),
        pool(returned="tf.py_function(show, [cov], tf.float32)"),
        pool(returned="tf.boolean_mask(cov, cov > 0)"),  # as long as it happens to be
        pool("tf.map_fn(other, x)"),
        pool("tf.map_fn(self.describe, x, fn_output_signature=tf.RaggedTensorSpec([None]))"),
        pool("tf.map_fn(self.describe, x, infer=3)"),
    ],
)
def test_other_functions_keep_their_loop(text: str) -> None:
    assert changed(text) is None
