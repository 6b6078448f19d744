"""Lists become arrays before TensorFlow goes through them."""

from __future__ import annotations

import pytest

from slowtrain.causes.transfer.per_step_feed import converts_new_list, fix
from slowtrain.script.text import edits, source_file

HEAD = "import numpy as np\nimport tensorflow as tf\n"
CASES: dict[str, tuple[str, str | None]] = {
    "a list": (
        "rows = [np.zeros(3) for _ in range(4)]\nx = tf.constant(rows, tf.float32)  # HERE\n",
        'x = tf.constant(np.asarray(rows, "float32"), tf.float32)',
    ),
    "nobody knows": (
        "def put(f):\n    return tf.convert_to_tensor(f, dtype=tf.float32)  # HERE\n",
        'tf.convert_to_tensor(np.asarray(f, "float32") if isinstance(f, (list, tuple)) else f, dtype=tf.float32)',
    ),
    "a type in a text": (
        "def put(f):\n    return tf.constant(f, 'float32')  # HERE\n",
        "np.asarray(f, \"float32\") if isinstance(f, (list, tuple)) else f, 'float32')",
    ),
    "an array": ("rows = np.zeros(3)\nx = tf.constant(rows, tf.float32)  # HERE\n", None),
    "no type": ("def put(f):\n    return tf.constant(f)  # HERE\n", None),
    "whole numbers": ("def put(f):\n    return tf.constant(f, tf.int32)  # HERE\n", None),
    "tensors in a list": ("x = tf.convert_to_tensor([tf.zeros(3), tf.ones(3)], tf.float32)  # HERE\n", None),
    "made on the spot of who knows what": ("x = tf.constant(read(), tf.float32)  # HERE\n", None),
    "in a graph": ("@tf.function\ndef put(f):\n    return tf.constant(f, tf.float32)  # HERE\n", None),
    "called from a graph": (
        "def put(f):\n    return tf.constant(f, tf.float32)  # HERE\n@tf.function\ndef step(f):\n    return put(f)\n",
        None,
    ),
    "under a tape": (
        (
            "def put(f):\n    return tf.constant(f, tf.float32)  # HERE\n"
            "def step(f):\n    with tf.GradientTape() as tape:\n        return put(f)\n"
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays_first(name: str) -> None:
    script, part = CASES[name]
    text = source_file.parse_source("train.py", HEAD + script)
    assert text is not None
    line = next(i for i, row in enumerate(text.text.split("\n"), 1) if "HERE" in row)
    found = fix.as_array_first(text, line)
    assert bool(found) == (part is not None)
    if part is not None:
        assert part in edits.edited_text(text, found)


def test_where_a_list_is_made_and_converted() -> None:
    script = "import tensorflow as tf\ntf.constant([t[i] for i in chosen])\ntf.constant(table)\n"
    text = source_file.parse_source("train.py", script)
    assert text is not None
    assert [converts_new_list(text, line) for line in (1, 2, 3)] == [False, True, False]


ROWS = """rows, kinds = read()
for step in range(900):
    chosen = sampler.pick()
    x = tf.constant([rows[s:s + 64] for s in chosen], dtype=tf.float32)  # HERE
    train_step(x)
"""


def once(script: str) -> str | None:
    text = source_file.parse_source("train.py", HEAD + script)
    assert text is not None
    line = next(i for i, row in enumerate(text.text.split("\n"), 1) if "HERE" in row)
    found = fix.as_array_once(text, line)
    return edits.edited_text(text, found) if found else None


def test_what_is_asked_of_the_rows_too() -> None:
    after = once(ROWS.replace("rows[s:s + 64]", "rows[s].track"))
    assert after is not None
    assert 'rows_track = np.asarray([one.track for one in rows], "float32")\nfor step' in after
    assert "tf.constant(np.stack([rows_track[s] for s in chosen]), dtype=tf.float32)" in after
    after = once(ROWS.replace("rows[s:s + 64]", 'rows[s]["signal"]'))
    assert after is not None
    assert 'rows_signal = np.asarray([one["signal"] for one in rows], "float32")\nfor step' in after


def test_what_is_asked_of_rows_that_were_gathered_before() -> None:
    gathered = "    group = [rows[i] for i in order[step:step + 9]]\n"
    text = ROWS.replace("    chosen = sampler.pick()\n", gathered).replace(
        "rows[s:s + 64] for s in chosen", "r.x for r in group"
    )
    after = once(text)
    assert after is not None
    assert 'rows_x = np.asarray([one.x for one in rows], "float32")\nfor step' in after
    assert "tf.constant(np.stack([rows_x[i] for i in order[step:step + 9]]), dtype=tf.float32)" in after
    assert once(text.replace("order[step:step + 9]", "sampler.pick()")) is None  # two draws would be two groups


def test_rows_of_the_object_itself() -> None:
    method = "class Data:\n    def __init__(self, rows):\n        self.rows = rows\n    def epoch(self, picks):\n"
    loop = "        for picked in picks:\n            "
    loop += "yield tf.constant([self.rows[j] for j in picked], tf.float32)  # HERE\n"
    after = once(method + loop)
    assert after is not None
    assert '        rows_array = np.asarray(self.rows, "float32")\n        for picked' in after
    assert once(method + loop + "    def other(self):\n        self.rows = []\n") is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "rows[s:s + 64] for s in chosen], dtype=tf.float32)  # HERE",
            "rows[s]['x'] for s in chosen], 'float32')  # HERE\n    rows[3]['x'] = 0",
        ),
        ("rows[s:s + 64]", "rows[s].x()"),
        ("train_step(x)", "rows.append(train_step(x))"),  # grows on the way
        ("train_step(x)", "rows[0] = train_step(x)"),
        ("    chosen", "    rows = read()\n    chosen"),
        (", dtype=tf.float32", ""),  # of what type, NumPy and TensorFlow may not agree
        ("rows, kinds = read()", "rows = tf.constant(read())"),
        ("[rows[s:s + 64] for s", "[s[:64] for s"),
        ("for step in range(900):", "if True:"),
        ("rows[s:s + 64]", "rows[s, 0]"),
    ],
)
def test_rows_that_stay(old: str, new: str) -> None:
    script = ROWS.replace(old, new)
    assert script != ROWS
    assert once(script) is None
