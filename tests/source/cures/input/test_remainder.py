"""Batches of one shape: text in, exact text out, or no edit where a result would change that is no training's."""

from __future__ import annotations

import pytest

from slowtrain.causes.startup.slow_startup import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = "import tensorflow as tf\n"
SLICES = "tf.data.Dataset.from_tensor_slices((x, y))"


def _edited(text: str) -> str | None:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    line = next(n for n, row in enumerate(source.text.split("\n"), 1) if "#@" in row)
    found = fix.drop_remainder(source, line)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new.removeprefix(HEAD) if new is not None else None


DROPPED = {
    "at the batch": (f"ds = {SLICES}.batch(8).prefetch(2)  #@\n", "batch(8)", "batch(8, drop_remainder=True)"),
    "by its name": (f"ds = {SLICES}.batch(batch_size=8)  #@\n", "size=8", "size=8, drop_remainder=True"),
    "seen from the loop": (
        f"ds = {SLICES}.batch(8)\nfor a, b in ds:  #@\n    step(a, b)\n", "batch(8)", "batch(8, drop_remainder=True)",
    ),
    "False": (f"ds = {SLICES}.batch(8, drop_remainder=False)  #@\n", "False", "True"),
    "padded": (f"ds = {SLICES}.padded_batch(8)  #@\n", "batch(8)", "batch(8, drop_remainder=True)"),
    "beside a validation of its own": (
        f"ds = {SLICES}.batch(8)\nheld = {SLICES}.batch(9)\nm.fit(ds, validation_data=held)  #@\n",
        "batch(8)", "batch(8, drop_remainder=True)",
    ),
    "repeated behind": (f"ds = {SLICES}.batch(8).repeat()  #@\n", "batch(8)", "batch(8, drop_remainder=True)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new"), DROPPED.values(), ids=DROPPED)
def test_the_smaller_batch_is_dropped(text: str, old: str, new: str) -> None:
    assert _edited(text) == text.replace(old, new)


STAYS = {
    "dropped already": f"ds = {SLICES}.batch(8, drop_remainder=True)  #@\n",
    "a setting": f"ds = {SLICES}.batch(8, drop_remainder=DROP)  #@\n",
    "packed": f"ds = {SLICES}.batch(8, **more)  #@\n",
    "endless": f"ds = {SLICES}.repeat().batch(8)  #@\n",
    "judged on the same": f"ds = {SLICES}.batch(8)\nm.fit(ds)  #@\nm.evaluate(ds)\n",
    "a function for both": (
        f"def make(x, y):\n    return {SLICES}.batch(8)  #@\nm.fit(make(x, y), validation_data=make(p, q))\n"
    ),
    "arrays": "m.fit(x, y, batch_size=8)  #@\n",
    "no data set": "queue = pool.batch(8)  #@\n",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_nothing_else_changes(text: str) -> None:
    assert _edited(text) is None
