"""Functions of a data set that do the same to a batch: which ones are seen to, and that they do under TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from slowtrain.script.fixes.input import batched_maps
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from tests.source.cures.executed import executed_names


@dataclass(frozen=True)
class Case:
    """``function`` over elements of ``data``; ``ranks`` are their axes, ``results`` those of what it gives."""

    data: str
    function: str
    ranks: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    setup: str = ""
    mapped: str = "f"

    @property
    def text(self) -> str:
        head = f"import numpy as np\nimport tensorflow as tf\nfrom tensorflow import keras\n{self.setup}\n"
        return (
            f"{head}{self.function}\nds = tf.data.Dataset.from_tensor_slices({self.data}).map({self.mapped}).batch(4)\n"
        )


ROWS = "np.arange(30, dtype='float32').reshape(10, 3)"
PAIRS = f"({ROWS}, np.arange(10))"
PICTURES = "np.arange(10 * 6 * 4 * 3, dtype='float32').reshape(10, 6, 4, 3) / 720"
LINES = "[f'{i},{i * 0.5},{-i}' for i in range(10)]"
EXAMPLES = (
    "def example(i):\n"
    "    fields = {'x': tf.train.Feature(float_list=tf.train.FloatList(value=[i, 1.0, 2.0])),\n"
    "              'y': tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))}\n"
    "    return tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString()\n"
    "spec = {'x': tf.io.FixedLenFeature([3], tf.float32), 'y': tf.io.FixedLenFeature([], tf.int64)}\n"
)
FILLED = (
    "COUNT = 2\n"
    "def example(i):\n"
    "    given = {'x': [i, 1.0, 2.0], 'n_0': [i], 'n_1': [-i], 'y': [2 * i]}\n"
    "    fields = {k: tf.train.Feature(float_list=tf.train.FloatList(value=v)) for k, v in given.items()}\n"
    "    return tf.train.Example(features=tf.train.Features(feature=fields)).SerializeToString()\n"
    "SPEC = {f'n_{i}': tf.io.FixedLenFeature([], tf.float32) for i in range(COUNT)}\n"
    "SPEC['x'] = tf.io.FixedLenFeature([3], tf.float32)\n"
    "SPEC['y'] = tf.io.FixedLenFeature([], tf.float32)\n"
)
NUMBERS = "({'a': np.arange(10), 'b': np.arange(10) % 3}, np.arange(10))"
KIND = """class Kind:
    size, most = 7, 5
    def __init__(self, by=2):
        self.by = by
    def crossed(self, a, b):
        key = tf.strings.join([tf.strings.as_string(a), tf.strings.as_string(b)], separator='_')
        return tf.strings.to_hash_bucket_fast(key, self.size)
    def f(self, x, y):
        return {{'ab': self.crossed(x['a'] % self.most, x['b']), 'a': tf.minimum(x['a'], 4)}}, y{more}
"""
STATISTICS = f"table = {ROWS}\nmean, std = table.mean(0), table.std(0)\n"

SAME = {
    "as many as there are names": Case(ROWS, "def f(x):\n    return x / len(NAMES)", (1,), (1,), "NAMES = [1, 2]"),
    "a constant of the file": Case(ROWS, "def f(x):\n    return -x * SCALE", setup="SCALE = -1 / 3"),
    "statistics of columns": Case(PAIRS, "def f(x, y):\n    return (x - mean) / std, y", (1, 0), (1, 0), STATISTICS),
    "functions of numbers": Case(
        ROWS, "def f(x):\n    x = tf.math.log1p(x)\n    return tf.nn.relu(tf.cast(x, tf.float64))"
    ),
    "as many numbers as there are": Case(
        PICTURES, "def f(x):\n    return x + tf.ones(shape=tf.shape(x)) * 2.0", (3,), (3,)
    ),
    "columns of a line": Case(
        LINES,
        "def f(line):\n    c = tf.io.decode_csv(line, [[0.0]] * 3)\n    return tf.stack(c[:-1]), c[-1]",
        (0,),
        (1, 0),
    ),
    "columns of a line, named": Case(
        LINES,
        "def f(line):\n    a, b, c = tf.io.decode_csv(line, [[0.0]] * 3)\n    return {'a': a, 'b': b + c}",
        (0,),
        (0, 0),
    ),
    "columns of a line by the names of a list": Case(
        LINES,
        "def f(line):\n    d = dict(zip(NAMES, tf.io.decode_csv(line, [[0.0]] * 3)))\n    y = d.pop('c')\n"
        "    return tf.stack(list(d.values()), axis=-1), y",
        (0,),
        (1, 0),
        "NAMES = ['a', 'b', 'c']",
    ),
    "a lambda with a star": Case(f"(*{ROWS}.T,)", "f = None", (0, 0, 0), (1, 0), ""),
    "pictures": Case(
        PICTURES,
        "def f(x):\n    x = tf.image.resize(x, (3, 3))\n    return tf.image.per_image_standardization(x)",
        (3,),
        (3,),
    ),
    "a layer that scales": Case(
        ROWS, "def f(x):\n    return scale(x)", (1,), (1,), "scale = keras.layers.Rescaling(1 / 255)\n"
    ),
}

NOT = {
    "features that may change": Case(
        "[example(float(i)) for i in range(10)]",
        "def f(r):\n    row = tf.io.parse_single_example(r, SPEC)\n    return row['x'], row['y']",
        (0,),
        (1, 0),
        FILLED + "SPEC.pop('n_0')\n",
    ),
    "a feature of any length among them": Case(
        "[example(float(i)) for i in range(10)]",
        "def f(r):\n    row = tf.io.parse_single_example(r, SPEC)\n    return row['x'], row['y']",
        (0,),
        (1, 0),
        FILLED + "if True:\n    SPEC['x'] = tf.io.VarLenFeature(tf.float32)\n",
    ),
    "as many as an element has": Case(ROWS, "def f(x):\n    return tf.reduce_sum(x, -1) / len(x)", (1,), (0,)),
    "names that change": Case(
        LINES,
        "def f(line):\n    return dict(zip(NAMES, tf.io.decode_csv(line, [[0.0]] * 3)))",
        (0,),
        (0, 0, 0),
        "NAMES = ['a', 'b', 'c']\nNAMES.reverse()",
    ),
    "a function of the file called as Python's own": Case(
        LINES,
        "def f(line):\n    return list(tf.io.decode_csv(line, [[0.0]] * 3))",
        (0,),
        (0,),
        "def list(parts):\n    return tf.reduce_sum(parts[0])",
    ),
    "a key that nobody told": Case(
        "[example(float(i)) for i in range(10)]",
        "def f(r):\n    row = tf.io.parse_single_example(r, SPEC)\n"
        "    return tf.stack([row[k] for k in names()]), row['y']",
        (0,),
        (1, 0),
        FILLED,
    ),
    "a part of a row, and of a batch elsewhere": Case(
        ROWS, "def f(x):\n    return x[:2]\nfew = f(np.ones((8, 3)))", (1,), (1,)
    ),
    "a tuple or a row": Case(f"(({ROWS}, {ROWS}), {ROWS})", "def f(x, y):\n    return x[0] + y", (1, 1, 1), (1,)),
    "a method that a class of another file may have": Case(ROWS, "from other import k", (1,), (1,), mapped="k.f"),
    "what a method adds up": Case(
        NUMBERS, KIND.format(more=" * tf.reduce_sum(x['a'])"), (0, 0, 0), (0, 0, 0), mapped="Kind().f"
    ),
    "a row that an object holds, of numbers": Case(
        "np.arange(10)",
        "class Kind:\n    def __init__(self):\n        self.by = np.ones(3)\n"
        "    def f(self, x):\n        return tf.stack([x * self.by, x * 2])",
        (0,),
        (2,),
        mapped="Kind().f",
    ),
    "a shape in a method that is used twice": Case(
        ROWS,
        "class Kind:\n    def f(self, x):\n        return tf.reshape(x, (3, 1))\nother = Kind().f(1)",
        (1,),
        (2,),
        mapped="Kind().f",
    ),
    "a mean of a picture": Case(PICTURES, "def f(x):\n    return x - tf.reduce_mean(x)", (3,), (3,)),
    "a number by a row": Case(PAIRS, "def f(x, y):\n    return x * tf.cast(y, tf.float32)", (1, 0), (1,)),
    "a number by a constant row": Case(
        "np.arange(10.0)", "def f(x):\n    return x * mean", (0,), (1,), STATISTICS.replace("float32", "float64")
    ),
    "a row that nobody measured": Case(ROWS, "def f(x):\n    return x[0]"),
    "a constant that nobody measured": Case(PAIRS, "def f(x, y):\n    return (x - mean) / std, y", (), (), STATISTICS),
    "a random number for each": Case(ROWS, "def f(x):\n    return x * tf.random.uniform(())", (1,), (1,)),
    "a random number for each of another shape": Case(
        ROWS, "def f(x):\n    return x * tf.random.normal(tf.shape(x)[:1])", (1,), (1,)
    ),
    "one draw for a batch": Case(PICTURES, "def f(x):\n    return tf.image.random_brightness(x, 0.2)", (3,), (3,)),
    "a random place": Case(PICTURES, "def f(x):\n    return tf.image.random_crop(x, (2, 2, 3))", (3,), (3,)),
    "a decoder": Case("names", "def f(n):\n    return tf.io.decode_png(tf.io.read_file(n))", (0,), (3,)),
    "Python": Case(ROWS, "def f(x):\n    return tf.numpy_function(g, [x], tf.float32)", (1,), (1,)),
    "a choice": Case(
        ROWS, "def f(x):\n    if tf.reduce_any(x > 0, axis=-1):\n        x = -x\n    return x", (1,), (1,)
    ),
    "a product of matrices": Case(PICTURES, "def f(x):\n    return x @ x", (3,), (3,)),
    "words of a text": Case(LINES, "def f(t):\n    return tf.strings.split(t)", (0,), (1,)),
    "a shape of its own": Case(ROWS, "def f(x):\n    return tf.reshape(x, (-1, 3))", (1,), (2,)),
    "a shape, in two places": Case(
        ROWS,
        "def f(x):\n    return tf.reshape(x, (3, 1))\nother = ds.map(f)",
        (1,),
        (2,),
        "ds = tf.data.Dataset.range(3)\n",
    ),
    "a layer that is not known": Case(
        ROWS, "def f(x):\n    return n(x)", (1,), (1,), "n = keras.layers.Normalization()\n"
    ),
    "a layer that cuts one place from a batch": Case(
        PICTURES, "def f(x):\n    return n(x)", (3,), (3,), "n = keras.layers.RandomCrop(2, 2)\n"
    ),
    "a decorated function": Case(ROWS, "@wrapped\ndef f(x):\n    return x * 2", (1,), (1,)),
    "stacked with a constant": Case(ROWS, "def f(x):\n    return tf.stack([x, mean])", (1,), (2,), STATISTICS),
    "a constant wider than the element, then taken away": Case(
        ROWS,
        "def f(x):\n    return tf.reduce_sum(x * grid, axis=-1)",
        (1,),
        (1,),
        "grid = np.ones((4, 3), 'float32')\n",
    ),
}


def _changed(case: Case) -> str | None:
    text = case.text
    if case.function == "f = None":
        text = text.replace("f = None\n", "").replace(".map(f)", ".map(lambda *r: (tf.stack(r[:2]), r[2]))")
    source = parse_source("train.py", text)
    assert source is not None
    line = len(text.splitlines())
    found, _ = batched_maps.batch_before_map(source, line, None, case.ranks, case.results)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_it_is_seen_that_a_function_takes_batches(case: Case) -> None:
    text = _changed(case)
    assert text is not None
    assert text.rindex(".batch(4)") < text.rindex(".map(")


@pytest.mark.parametrize("case", NOT.values(), ids=NOT)
def test_what_may_differ_is_left_alone(case: Case) -> None:
    assert _changed(case) is None


@pytest.mark.tensorflow
def test_batches_hold_the_same_numbers_either_way(tmp_path: Path) -> None:
    import tensorflow as tf

    for name, case in SAME.items():
        new = _changed(case)
        assert new is not None
        old = case.text
        if case.function == "f = None":
            old = old.replace("f = None\n", "").replace(".map(f)", ".map(lambda *r: (tf.stack(r[:2]), r[2]))")
        before, after = (
            [tf.nest.flatten(batch) for batch in executed_names(text, tmp_path)["ds"].as_numpy_iterator()]
            for text in (old, new)
        )
        assert len(before) == len(after) == 3, name
        for one, other in zip(before, after, strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)
                assert a.dtype == b.dtype, name
