"""A data set with a cache that a loop builds anew is built in front of it."""

from __future__ import annotations

import pytest

from slowtrain.script.text import edits, source_file
from slowtrain.source.cures.input import once

TEXT = """\
import tensorflow as tf

def training(x, y):
    ds = tf.data.Dataset.from_tensor_slices((x, y)).map(prepare).cache()
    return ds.shuffle(len(x)).batch(8)

for epoch in range(9):
    total = 0.0
    for a, b in training(waves, words):
        total += step(a, b)
"""


def built(text: str) -> str | None:
    read = source_file.parse_source("train.py", text)
    assert read is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "in training(" in row)
    found = once.built(read, line)
    return edits.edited_text(read, found) if found else None


def test_it_is_built_in_front_of_all_loops() -> None:
    assert built(TEXT) == TEXT.replace("in training(waves, words)", "in data").replace(
        "for epoch", "data = training(waves, words)\nfor epoch"
    )


def test_under_a_name_that_is_free() -> None:
    after = built("data = load()\n" + TEXT)
    assert after is not None
    assert "\ndataset = training(waves, words)\nfor epoch" in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("training(waves, words)", "training(waves, words[epoch])"),  # another one in each turn
        ("training(waves, words)", "training(waves, epoch)"),
        ("training(waves, words)", "training(*both)"),
        ("    total = 0.0", "    total = 0.0\n    rng.shuffle(waves)"),  # changed in between
        (".cache()", ""),  # nothing would be kept
        ("    ds = tf", "    x = x[np.random.permutation(len(x))]\n    ds = tf"),  # drawn when it is built
        ("def training", "@timed\ndef training"),
        ("for epoch in range(9):\n    total = 0.0\n    for", "total = 0.0\nif True:\n    for"),
    ],
)
def test_left_alone(old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    assert built(changed) is None
