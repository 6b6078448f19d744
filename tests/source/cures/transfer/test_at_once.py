"""Tensors are read whole."""

from __future__ import annotations

import pytest

from slowtrain.causes.transfer.per_step_readback import fix
from slowtrain.script.text import edits, source_file

STEP = """\
import tensorflow as tf


@tf.function
def step(x):
    each = tf.square(x)
    {returned}


class Bank:
    def record(self, rows, losses):
        {loop}


bank = Bank()
for rows, xb in tf.data.Dataset.from_tensor_slices((r, x)).batch(8):
    each = step(xb)
    bank.record(rows, each)
"""
ZIP = "for row, value in zip(rows, losses):\n            self.score[int(row)] = float(value)"
LOOPS: dict[str, tuple[str, str, str | None]] = {
    "two tensors": ("return each", ZIP, "zip(rows.numpy(), losses.numpy())"),
    "numbered": (
        "return each",
        "for i, v in enumerate(losses):\n            self.all[i] = float(v)",
        "in enumerate(losses.numpy()):",
    ),
    "one of them computed with": (
        "return each",
        "for row, v in zip(rows, losses):\n            self.all[int(row)] = v * 2",
        "zip(rows.numpy(), losses)",
    ),
    "used after the loop": (
        "return each",
        "for v in losses:\n            self.all.append(float(v))\n        self.last = v",
        None,
    ),
    "a tuple": ("return each, each", "for v in losses:\n            self.all.append(float(v))", None),
    "a list of tensors": ("return [each]", "for v in losses:\n            self.all.append(float(v))", None),
    "several by one op": (
        "each = tf.unstack(x)\n    return each",
        "for v in losses:\n            self.all.append(float(v))",
        None,
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_read_whole(name: str) -> None:
    returned, loop, part = LOOPS[name]
    text = source_file.parse_source("train.py", STEP.format(returned=returned, loop=loop))
    assert text is not None
    line = next(i for i, row in enumerate(text.text.split("\n"), 1) if row.startswith("        for "))
    found = fix.read_whole(text, line)
    assert bool(found) == (part is not None)
    if part is not None:
        assert part in edits.edited_text(text, found)


PLACES = """\
import tensorflow as tf

@tf.function
def step(x, y):
    return tf.reduce_mean(x), tf.matmul(x, x)

def epoch(ds, seen):
    for x, y in ds:
        loss, scores = step(x, y)
        for i in range(len(y)):
            {body}

epoch(tf.data.Dataset.from_tensor_slices((xs, ys)).batch(8), [])
"""
BY_PLACE: dict[str, tuple[str, str | None, str]] = {
    "numbers": (
        "seen[int(y[i])] += float(scores[i, 0])",
        "seen[int(y_read[i])] += float(scores_read[i, 0])",
        "        scores_read = scores.numpy()\n        y_read = y.numpy()\n        for i",
    ),
    "read one by one": (
        "seen.append(y[i].numpy())",
        "seen.append(y_read[i])",
        "        y_read = y.numpy()\n        for i",
    ),
    "places": (
        "seen[int(tf.argmax(scores[i]))] += 1",
        "seen[int(np.argmax(scores_read[i]))] += 1",
        "import numpy as np\n",
    ),
    "a tensor is kept": ("seen.append(scores[i])", None, ""),
    "of a row, along an axis": ("seen.append(int(tf.argmax(scores[i], 0)))", None, ""),
    "an array, perhaps": ("seen.append(tf.argmax(scores[i]).numpy())", None, ""),
    "another tensor in each turn": ("y = step(x, y)[1]\n            seen.append(int(y[i]))", None, ""),
    "no element of its own": ("seen.append(int(y[0]))", None, ""),
    "whole as well": ("seen.append(int(y[i]) + tf.size(y))", None, ""),
}


@pytest.mark.parametrize("name", BY_PLACE)
def test_elements_are_read_by_place(name: str) -> None:
    body, after, also = BY_PLACE[name]
    text = PLACES.format(body=body)
    read = source_file.parse_source("train.py", text)
    assert read is not None
    found = fix.read_by_index(read, text[: text.index(body)].count("\n") + 1)
    new = edits.edited_text(read, found) if found else None
    assert (after is None) is (new is None)
    if new is not None and after is not None:
        assert after in new
        assert also in new
        assert ("import numpy" in new) is ("np." in after)
