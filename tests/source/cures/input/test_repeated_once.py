"""Conversions of what stays as it is, among the arguments of the step: made once, before the loop."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.input import hoisted_conversions
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = "import numpy as np\nimport tensorflow as tf\na, b = np.ones((9, 9)), np.zeros((9, 2))\n"
LOOP = "for i in range(9):\n    {row}  #@\n"


def _edited(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    found = hoisted_conversions.hoist_repeated_work(source, line)
    return edits.edited_text(source, found) if found else None


ONCE = {
    "two arguments": (
        "loss = step(tf.constant(a, tf.float32), tf.constant(b))",
        "a_tensor = tf.constant(a, tf.float32)\nb_tensor = tf.constant(b)\n",
        "loss = step(a_tensor, b_tensor)",
    ),
    "by name, in a pair": (
        "step(x=(tf.cast(a, tf.int32), i))",
        "a_tensor = tf.cast(a, tf.int32)\n",
        "step(x=(a_tensor, i))",
    ),
    "twice the same": (
        "step(tf.constant(a), tf.constant(a))",
        "a_tensor = tf.constant(a)\n",
        "step(a_tensor, a_tensor)",
    ),
    "a part that stays": ("step(tf.constant(a[:3]))", "a_tensor = tf.constant(a[:3])\n", "step(a_tensor)"),
}


@pytest.mark.parametrize(("row", "before", "after"), ONCE.values(), ids=ONCE)
def test_it_is_converted_once(row: str, before: str, after: str) -> None:
    assert _edited(HEAD + LOOP.format(row=row)) == HEAD + before + LOOP.format(row=after)


STAYS = {
    "drawn": "step(tf.constant(np.random.rand(9)))",
    "a variable": "step(tf.Variable(a))",
    "when it is called": "step(lambda: tf.constant(a))",
    "changed in the loop": "step(tf.constant(a)); a[0] += 1",
    "handed to what may change it": "step(tf.constant(a)); np.random.shuffle(a)",
    "only in some turns": "if i % 9: step(tf.constant(a))",
}


@pytest.mark.parametrize("row", STAYS.values(), ids=STAYS)
def test_what_may_change_is_left(row: str) -> None:
    text = HEAD + (
        LOOP.format(row=row) if not row.startswith("if") else LOOP.format(row=row.replace(": ", ":\n        "))
    )
    assert _edited(text) is None
