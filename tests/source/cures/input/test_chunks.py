"""Generators of samples that hand over whole batches: which ones, and that the batches are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slowtrain.script.fixes.input import generator_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from tests.source.cures.executed import executed_names

HEAD = "import numpy as np\nimport tensorflow as tf\nrng = np.random.default_rng(3)\nN = 3\n"
KIND = """
class Posts:
    def __init__(self, rows):
        self.rows = rows

    def __call__(self):
        for k in rng.permutation(len(self.rows)):
            yield [k, k + 1, int(rng.integers(9))], self.rows[k]

    def dataset(self, size):
        spec = (tf.TensorSpec((N,), tf.int32), tf.TensorSpec((), tf.float32))
        ds = tf.data.Dataset.from_generator(self, output_signature=spec)
        return ds{then}

ds = Posts(np.arange(10) / 3).dataset(4)
"""
PLAIN = """
def samples(by=2.0):
    for k in range(10):
        yield {sample}

ds = tf.data.Dataset.from_generator({given}, output_signature={spec}){then}
"""
NUMBER = "tf.TensorSpec((), tf.float32)"
ROW = "tf.TensorSpec(shape=(2,), dtype=tf.float32)"


def plain(sample: str, spec: str, then: str = ".batch(4)", given: str = "samples") -> str:
    return PLAIN.format(sample=sample, spec=spec, then=then, given=given)


DONE = {
    "an object, drawn at random": KIND.format(then=".batch(size, drop_remainder=True).prefetch(2)"),
    "an object, the rest of it too": KIND.format(then=".batch(size).prefetch(2)"),
    "shuffled first": KIND.format(then=".shuffle(5, seed=1).batch(size)"),
    "repeated first": KIND.format(then=".repeat(2).batch(size)"),
    "one number": plain("k * 0.1", NUMBER),
    "a dictionary and a number": plain("({'a': (k, 1), 'b': k}, k)", f"({{'a': {ROW}, 'b': {NUMBER}}}, {NUMBER})"),
    "a lambda": plain("(k, by)", f"({NUMBER}, {NUMBER})", given="lambda: samples(3.0)"),
    "texts": plain("(f'{k}', k)", f"(tf.TensorSpec((), tf.string), {NUMBER})"),
    "over several lines": plain("[k, k]", ROW, "\\\n    .batch(4)\\\n    .prefetch(1)"),
    "an array that is filled again and again": plain("row(k)", ROW).replace(
        "def samples", "buffer = np.zeros(2)\ndef row(k):\n    buffer[:] = k\n    return buffer\ndef samples"
    ),
    "a map behind": plain("[k, k]", ROW, ".map(lambda x: x + 1).batch(4)"),
}
NOT = {
    "any length": plain("[k] * k", "tf.TensorSpec((None,), tf.float32)"),
    "any shape": plain("[k] * k", "tf.TensorSpec(None, tf.float32)"),
    "a shape of elsewhere": plain("[k, k]", "tf.TensorSpec(shape, tf.float32)"),
    "rows of several lengths": plain("k", "tf.RaggedTensorSpec((None,), tf.float32)"),
    "a signature of elsewhere": plain("k", "signature()"),
    "types alone": plain("k", NUMBER).replace("output_signature=" + NUMBER, "output_types=tf.float32"),
    "arguments of the generator": plain("k", NUMBER).replace("samples, out", "samples, args=(3.0,), out"),
    "no data set": plain("k", NUMBER).replace("tf.data.Dataset", "mine"),
}


def changed(text: str) -> str | None:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    line = next(i for i, row in enumerate(source.text.splitlines(), 1) if "from_generator" in row)
    found = generator_edits.yield_batches(source, line)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize("name", NOT)
def test_samples_of_unknown_shape_stay_single(name: str) -> None:
    assert changed(NOT[name]) is None


def test_a_size_that_changes_on_the_way_is_not_taken() -> None:
    text = KIND.format(then=".batch(size)").replace("        return", "        size = size // 2\n        return")
    assert ".unbatch()" in (changed(text) or "")


@pytest.mark.tensorflow
def test_the_batches_are_the_same(tmp_path: Path) -> None:
    texts = {name: [HEAD + text, changed(text) or ""] for name, text in DONE.items()}
    assert all(new for _, new in texts.values())
    whole = [name for name, (_, new) in texts.items() if ".unbatch()" not in new]
    assert len(whole) == len(DONE) - 3
    import tensorflow as tf

    def given(text: str) -> tuple[list[Any], Any]:
        ds = executed_names(text, tmp_path)["ds"]
        batches = [tf.nest.map_structure(lambda a: a.tolist(), x) for _ in range(2) for x in ds.as_numpy_iterator()]
        return batches, ds.element_spec

    for name, (old, new) in texts.items():
        (batches, spec), changed_to = given(old), given(new)
        assert changed_to == (batches, spec), name
        assert len(batches) > 3, name
