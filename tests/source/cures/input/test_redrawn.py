"""Batches that are drawn anew in every epoch, of random numbers and nothing else; text in, text out, or no edit."""

from __future__ import annotations

import contextlib
import io

import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.input import redrawn

HEAD = """import numpy as np
import tensorflow as tf
n, size = 3, 4
rng = np.random.default_rng(0)
data = np.ones((12, 2))


def drawn(size):
    x = np.random.rand(size, 2)
    return x, x.sum(axis=1)


def read(size):
    return data[np.random.randint(0, 12, size)]


"""
LOOP = "for epoch in range(5):\n{before}    for i in range({turns}):\n{rows}"


def _edited(text: str, room_bytes: float = 100.0, batch_bytes: float = 1.0) -> str | None:
    source = parse_source("train.py", text)
    assert source is not None
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    found = redrawn.drawn_once(source, line, room_bytes, batch_bytes)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new


def _script(rows: str, before: str = "", turns: str = "n") -> str:
    inner = "".join(f"        {row}\n" for row in rows.split("\n"))
    return HEAD + LOOP.format(before=before, turns=turns, rows=inner)


ONCE = {
    "two arrays": (
        "x = np.random.rand(size, 2)  #@\ny = rng.normal(size=size)\nloss = model.train_on_batch(x, y)",
        (
            "batches = []\nfor i in range(n):\n    x = np.random.rand(size, 2)  #@\n    y = rng.normal(size=size)\n"
            "    batches.append((x, y))\nfor epoch in range(5):\n    for x, y in batches:\n"
            "        loss = model.train_on_batch(x, y)\n"
        ),
    ),
    "a function of the file": (
        "x, y = drawn(size)  #@\nmodel.train_on_batch(x, y)",
        (
            "batches = []\nfor i in range(n):\n    x, y = drawn(size)  #@\n    batches.append((x, y))\n"
            "for epoch in range(5):\n    for x, y in batches:\n        model.train_on_batch(x, y)\n"
        ),
    ),
    "tensors on a device": (
        (
            "a = np.random.rand(size)  #@\nwith tf.device('/CPU:0'):\n    # as a tensor\n"
            "    x = tf.constant(a)\n    model.train_on_batch(x)"
        ),
        (
            "batches = []\nfor i in range(n):\n    a = np.random.rand(size)  #@\n    with tf.device('/CPU:0'):\n"
            "        x = tf.constant(a)\n    batches.append(x)\nfor epoch in range(5):\n    for x in batches:\n"
            "        with tf.device('/CPU:0'):\n            # as a tensor\n            model.train_on_batch(x)\n"
        ),
    ),
    "the turn's number is used": (
        "x = tf.random.normal((size, 2))  #@\nmodel.train_on_batch(x)\nprint(i)",
        (
            "batches = []\nfor i in range(n):\n    x = tf.random.normal((size, 2))  #@\n    batches.append((i, x))\n"
            "for epoch in range(5):\n    for i, x in batches:\n        model.train_on_batch(x)\n        print(i)\n"
        ),
    ),
}


@pytest.mark.parametrize(("rows", "after"), ONCE.values(), ids=ONCE)
def test_the_batches_of_an_epoch_are_drawn_once(rows: str, after: str) -> None:
    assert _edited(_script(rows)) == HEAD + after


STAYS = {
    "rows of data": ("x = data[rng.integers(0, 12, size)]  #@\nmodel.train_on_batch(x)", "", "n"),
    "rows of data in a function": ("x = read(size)  #@\nmodel.train_on_batch(x)", "", "n"),
    "data with noise": ("x = data + np.random.rand(12, 2)  #@\nmodel.train_on_batch(x)", "", "n"),
    "noise beside data": ("z = np.random.rand(size, 2)  #@\nmodel.train_on_batch(z, data[i:i + size])", "", "n"),
    "noise beside what is asked for": ("z = np.random.rand(4)  #@\nmodel.train_on_batch(z, next(rest))", "", "n"),
    "read from a file": ("x = np.load('x.npy') + np.random.rand(4)  #@\nmodel.train_on_batch(x)", "", "n"),
    "asked of something else": ("x = env.sample(np.random.rand(4))  #@\nmodel.train_on_batch(x)", "", "n"),
    "nothing is drawn": ("x = np.ones((size, 2))  #@\nmodel.train_on_batch(x)", "", "n"),
    "the step changes its batch": ("x = np.random.rand(4)  #@\nmodel.train_on_batch(x)\nx[0] = 1", "", "n"),
    "the next batch follows from it": ("x = np.random.rand(size)  #@\nmodel.train_on_batch(x)\nsize = 7", "", "n"),
    "seeded in each epoch": ("x = np.random.rand(4)  #@\nmodel.train_on_batch(x)", "    np.random.seed(epoch)\n", "n"),
    "other numbers in each epoch": ("x = np.random.rand(n)  #@\nmodel.train_on_batch(x)", "    n = epoch + 1\n", "9"),
    "more than fit": ("x = np.random.rand(4)  #@\nmodel.train_on_batch(x)", "", "101"),
    "nobody knows how many": ("x = np.random.rand(4)  #@\nmodel.train_on_batch(x)", "", "int(input())"),
}


@pytest.mark.parametrize(("rows", "before", "turns"), STAYS.values(), ids=STAYS)
def test_what_is_more_than_draws_stays(rows: str, before: str, turns: str) -> None:
    assert _edited(_script(rows, before, turns)) is None


def test_one_loop_without_epochs_stays() -> None:
    text = "for i in range(9):\n    x = np.random.rand(4)  #@\n    model.train_on_batch(x)\n"
    assert _edited(HEAD + text) is None


@pytest.mark.parametrize(("room_bytes", "fits"), [(3 * 8 * 12, True), (3 * 8 * 12 - 1, False)])
def test_the_text_tells_how_large_a_batch_is(room_bytes: float, fits: bool) -> None:
    rows = "x = np.random.rand(size, 2)  #@\ny = rng.normal(size=size)\nmodel.train_on_batch(x, y)"
    assert (_edited(_script(rows), room_bytes, 0.0) is not None) is fits


def test_a_batch_of_unknown_size_stays() -> None:
    rows = "x = np.random.rand(*given)  #@\nmodel.train_on_batch(x)"
    assert _edited(_script(rows), 1e9, 0.0) is None


def test_the_first_epoch_sees_the_same_and_the_others_see_it_again() -> None:
    rows = "x, y = drawn(size)  #@\nprint(np.round(x.sum() + y.sum(), 9), end=' ')\nmodel.train_on_batch(x, y)"
    text = _script(rows)
    new = _edited(text)
    assert new is not None
    drawn, kept = _printed(text), _printed(new)
    assert len(set(drawn)) == 15
    assert kept == drawn[:3] * 5


def _printed(text: str) -> list[str]:
    class Model:
        def train_on_batch(self, *_: object) -> None: ...

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec("import numpy\nnumpy.random.seed(0)\n" + text, {"model": Model()})
    return out.getvalue().split()
