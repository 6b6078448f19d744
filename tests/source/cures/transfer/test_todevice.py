"""A data set that ends on the GPU: text in, exact text out, or no edit where another reader would break."""

from __future__ import annotations

import pytest

from slowtrain.causes.transfer.small_copies import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

HEAD = """import tensorflow as tf

@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x * w)
    w.assign_sub(tape.gradient(loss, w))


"""
ON_DEVICE = '.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))'
SLICES = "tf.data.Dataset.from_tensor_slices(a)"


def _edited(text: str) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    found = fix.prefetch_to_device(source, line)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new


# Each with HERE where the new stage belongs.
ENDS = {
    "seen from the loop": (
        f"ds = {SLICES}.batch(8)HERE\nfor epoch in range(3):\n    for i, x in enumerate(ds):  #@\n        step(x)\n"
    ),
    "in the loop's header": f"ds = {SLICES}.batch(8)\nfor i, x in enumerate(ds.take(500)HERE):  #@\n    step(x)\n",
    "given to fit": f"ds = {SLICES}.batch(8).repeat()HERE\nmodel.fit(ds, steps_per_epoch=9)  #@\n",
    "made in a function": (f"def make():\n    return {SLICES}.batch(8)HERE  #@\n\n\nfor x in make():\n    step(x)\n"),
    "a chain of rows": (
        f"ds = (\n    {SLICES}\n    .batch(8)\n    .prefetch(2)\n    HERE\n)\nfor x in ds:  #@\n    step(x)\n"
    ),
}


@pytest.mark.parametrize("text", ENDS.values(), ids=ENDS)
def test_it_is_the_last_operation(text: str) -> None:
    before = (HEAD + text).replace("\n    HERE", "").replace("HERE", "")
    assert _edited(before) == HEAD + text.replace("HERE", ON_DEVICE)


FIT = "model.fit(ds, steps_per_epoch=9)  #@\n"
STAYS = {
    "fit is not told the steps of an epoch": f"ds = {SLICES}.batch(8)\nmodel.fit(ds, epochs=2)  #@\n",
    "there already": f"ds = {SLICES}.batch(8){ON_DEVICE}\n{FIT}",
    "class weights are mapped behind it": (
        f"ds = {SLICES}.batch(8)\nmodel.fit(ds, class_weight=cw, steps_per_epoch=9)  #@\n"
    ),
    "its length is asked": f"ds = {SLICES}.batch(8)\n{FIT}print(len(ds))\n",
    "worked on behind": f"ds = {SLICES}.batch(8)\nfew = ds.take(3)\n{FIT}",
    "judged as well": f"ds = {SLICES}.batch(8)\n{FIT}model.evaluate(ds)\n",
    "read by a function": f"ds = {SLICES}.batch(8)\ndef look():\n    print(len(ds))\n{FIT}",
    "made anew in each epoch": (
        f"for epoch in range(3):\n    ds = {SLICES}.batch(8)\n    for x in ds:  #@\n        step(x)\n"
    ),
    "trains nothing": f"ds = {SLICES}.batch(8)  #@\nfor x in ds:\n    print(x)\n",
}


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_what_other_readers_need_stays(text: str) -> None:
    assert _edited(HEAD + text) is None
