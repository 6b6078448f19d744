"""Loops of Python in a graph as loops of the graph."""

from __future__ import annotations

import pytest

from slowtrain.causes.startup.slow_startup import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

STEPS = """\
import tensorflow as tf
@tf.function
def several(batches, total):
    for {of} in range(10):
        x, y = next(batches)
        {does}
    return {gives}
"""
SUM = "total = total + one(x, y)"


def changed(text: str) -> str:
    source = Source("train.py", text)
    return edits.edited_text(source, fix.loop_in_graph(source, 4))


def test_a_counted_loop_is_the_graphs() -> None:
    text = STEPS.format(of="_", does=SUM, gives="total / 10")
    assert changed(text) == text.replace("in range", "in tf.range")


@pytest.mark.parametrize(
    "text",
    [
        STEPS.format(of="i", does="total = total + i * one(x, y)", gives="total"),
        STEPS.format(of="i", does=SUM, gives="total / i"),
        STEPS.format(of="_", does="loss = one(x, y)", gives="loss"),
        STEPS.format(of="_", does="kept.append(one(x, y))", gives="total"),
        STEPS.format(of="_", does="last['loss'] = one(x, y)", gives="total"),
        STEPS.format(of="_", does="if x is None: break", gives="total"),
        STEPS.format(of="_", does=SUM, gives="total").replace("import tensorflow as tf", "from tensorflow import *"),
        STEPS.format(of="_", does=SUM, gives="total").replace("range(10)", "batches"),
    ],
    ids=[
        "its number is used",
        "the last number is used",
        "a name begins in it",
        "a list",
        "a dictionary",
        "it is left",
        "no name",
        "no range",
    ],
)
def test_what_a_graph_may_not_loop_over(text: str) -> None:
    assert changed(text) == text
