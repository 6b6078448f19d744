"""Generators of samples that hand over whole batches: which ones, and that the batches are the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slowtrain.script.fixes.input import generator_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

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


RUN = """
import json, sys
import tensorflow as tf
for name, texts in json.load(sys.stdin).items():
    given = []
    for text in texts:
        space = {}
        exec(compile(text, name, "exec"), space)
        seen = [tf.nest.map_structure(lambda a: a.tolist(), x) for x in space["ds"].as_numpy_iterator()]
        seen += [tf.nest.map_structure(lambda a: a.tolist(), x) for x in space["ds"].as_numpy_iterator()]
        given.append((seen, str(space["ds"].element_spec)))
    assert given[0][0] == given[1][0], name
    assert given[0][1] == given[1][1] and len(given[0][0]) > 3, (name, given[0][1], given[1][1])
print("done", len(given))
"""


@pytest.mark.tensorflow
def test_the_batches_are_the_same(tmp_path: Path) -> None:
    texts = {name: [HEAD + text, changed(text) or ""] for name, text in DONE.items()}
    assert all(new for _, new in texts.values())
    whole = [name for name, (_, new) in texts.items() if ".unbatch()" not in new]
    assert len(whole) == len(DONE) - 3
    given = json.dumps(texts)
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=given, text=True, capture_output=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("done")
