"""Edits that change the order of a pipeline's operations, or keep results: text in, exact text out, or no edit."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.input import batched_maps, dataset_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source
from tests.source.cures.edit_cases import EditCase, assert_edit, edit_cases

HEAD = "import tensorflow as tf\n"


def _line(text: str) -> int:
    """The line that holds the mark ``@``."""
    return next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)


def _edited(text: str, edit: Callable[[Source, int], Sequence[Edit]]) -> str | None:
    text = textwrap.dedent(text)
    source = parse_source("train.py", text)
    assert source is not None
    found = edit(source, _line(text))
    if not found:
        return None
    new = edits.edited_text(source, found)
    assert parse_source("train.py", new) is not None
    return new


def _check(before: str, after: str | None, edit: Callable[[Source, int], Sequence[Edit]]) -> None:
    after = None if after is None else textwrap.dedent(after)
    assert _edited(before, edit) == after


CACHED = {
    "a chain": (
        """\
        import tensorflow as tf
        ds = (tf.data.TFRecordDataset(names)
              .map(lambda x: tf.io.parse_tensor(x, tf.float32))  #@
              .batch(2))
        """,
        "      .map(lambda x: tf.io.parse_tensor(x, tf.float32))\n      .cache()  #@\n      .batch(2))",
        True,
    ),
    "a shuffle in front of it": (
        """\
        import tensorflow as tf
        def load(n):
            return tf.io.decode_png(tf.io.read_file(n))
        ds = tf.data.Dataset.from_tensor_slices(names).shuffle(100, seed=1)
        ds = ds.map(load).batch(2)  #@
        """,
        "ds = tf.data.Dataset.from_tensor_slices(names).map(load)\nds = ds.cache().shuffle(100, seed=1).batch(2)  #@\n",
        False,
    ),
    "a random function": (
        """\
        import tensorflow as tf
        def load(n):
            return tf.image.random_crop(n, (3, 3, 3))
        ds = tf.data.Dataset.from_tensor_slices(names).map(load).batch(2)  #@
        """,
        None,
        False,
    ),
    "a random layer in a function that it calls": (
        """\
        import tensorflow as tf
        turn = tf.keras.layers.RandomRotation(0.2)
        def inner(x):
            return turn(x)
        ds = tf.data.Dataset.from_tensor_slices(names).map(lambda x: inner(x)).batch(2)  #@
        """,
        None,
        False,
    ),
    "an endless one": (
        "import tensorflow as tf\nds = tf.data.Dataset.range(9).repeat().map(lambda x: x + 1).batch(2)  #@\n",
        None,
        False,
    ),
    "files in a random order": (
        "import tensorflow as tf\nds = tf.data.Dataset.list_files('*').map(lambda x: tf.io.read_file(x))  #@\n",
        None,
        False,
    ),
    "made anew in each epoch": (
        (
            "import tensorflow as tf\nfor e in range(3):\n"
            "    ds = tf.data.Dataset.range(9).map(lambda x: x + 1).batch(2)  #@\n    model.fit(ds)\n"
        ),
        None,
        False,
    ),
    "a source that nobody sees": ("import tensorflow as tf\nds = make().map(lambda x: x + 1)  #@\n", None, False),
    "a function of another file": (
        "import tensorflow as tf\nfrom other import load\nds = tf.data.Dataset.range(9).map(load)  #@\n",
        None,
        False,
    ),
    "a part of it only": (
        "import tensorflow as tf\nds = tf.data.Dataset.range(9).map(lambda x: x + 1).batch(2).take(2)  #@\n",
        None,
        False,
    ),
    "a branch that may shuffle": (
        (
            "import tensorflow as tf\nds = tf.data.Dataset.range(9)\nif training:\n    ds = ds.shuffle(9)\n"
            "ds = ds.map(lambda x: x + 1)  #@\n"
        ),
        None,
        False,
    ),
}


@pytest.mark.parametrize(("before", "after", "same"), CACHED.values(), ids=CACHED)
def test_results_that_are_the_same_in_every_epoch_are_kept(before: str, after: str | None, same: bool) -> None:
    text = textwrap.dedent(before)
    source = parse_source("train.py", text)
    assert source is not None
    found, exact = dataset_edits.add_cache(source, _line(text))
    if after is None:
        assert not found
    else:
        assert after in edits.edited_text(source, found)
        assert exact is same


def test_a_cache_goes_behind_all_that_stays_the_same() -> None:
    text = (
        "import tensorflow as tf\n"
        "ds = tf.data.Dataset.from_tensor_slices(names)\n"
        "ds = ds.map(lambda n: tf.io.read_file(n))  #@\n"
        "ds = ds.batch(8).map(lambda x: tf.io.decode_raw(x, tf.uint8)){more}.prefetch(2)\n"
    )

    def edit(source: Source, line: int) -> list[Edit]:
        return dataset_edits.add_cache(source, line, furthest=True)[0]

    decoded = "tf.uint8))"
    _check(text.replace("{more}", ""), text.replace("{more}", "").replace(decoded, f"{decoded}.cache()"), edit)
    for more in (".shuffle(9)", ".repeat()", ".map(lambda x: x + tf.random.uniform(()))"):
        changed = text.replace("{more}", more)
        _check(changed, changed.replace(decoded, f"{decoded}.cache()"), edit)
    changed = text.replace(".batch(8)", ".shuffle(9).batch(8)").replace("{more}", "")
    _check(changed, changed.replace("read_file(n))  #@", "read_file(n)).cache()  #@"), edit)


SHUFFLED = {
    "line by line": (
        "ds = tf.data.TFRecordDataset(names)\nds = ds.map(load)\nds = ds.shuffle(100)  #@\nds = ds.batch(8)\n",
        "ds = tf.data.TFRecordDataset(names)\nds = ds.shuffle(100)\nds = ds.map(load)  #@\nds = ds.batch(8)\n",
    ),
    "one chain, two maps": (
        "ds = tf.data.Dataset.list_files('*').map(load, num_parallel_calls=2).map(f).shuffle(9).batch(8)  #@\n",
        "ds = tf.data.Dataset.list_files('*').shuffle(9).map(load, num_parallel_calls=2).map(f).batch(8)  #@\n",
    ),
    "rows with comments": (
        "ds = (d\n      .map(load)  # slow\n      .shuffle(9, reshuffle_each_iteration=True)  #@\n      .batch(8))\n",
        "ds = (d\n      .shuffle(9, reshuffle_each_iteration=True)  # slow\n      .map(load)  #@\n      .batch(8))\n",
    ),
    "behind a repeat": ("ds = d.map(load).repeat().shuffle(9)  #@\n", "ds = d.repeat().shuffle(9).map(load)  #@\n"),
    "a cache in front": ("ds = d.map(load).cache().shuffle(9)  #@\n", None),
    "a filter in front": ("ds = d.map(load).filter(f).shuffle(9)  #@\n", None),
    "its size is known only then": (
        "ds = tf.data.Dataset.list_files('*').map(load)\nn = len(list(ds))\nds = ds.shuffle(n)  #@\n",
        None,
    ),
    "what lies between is used": (
        "ds = tf.data.Dataset.list_files('*').map(load)\nval = ds.take(10)\nds = ds.shuffle(9)  #@\n",
        None,
    ),
    "what lies between is looked at": (
        "ds = tf.data.Dataset.list_files('*').map(load)\nnorm.adapt(ds)\nds = ds.shuffle(9)  #@\n",
        None,
    ),
    "another name that is used later": (
        "a = tf.data.Dataset.list_files('*').map(load)\nb = a.shuffle(9)  #@\nmodel.evaluate(a)\n",
        None,
    ),
    "a branch": ("ds = d.map(load)\nif training:\n    ds = ds.shuffle(9)  #@\n", None),
    "the array's own": ("rng.shuffle(x)  #@\n", None),
}


@pytest.mark.parametrize(("before", "after"), SHUFFLED.values(), ids=SHUFFLED)
def test_a_shuffle_comes_before_the_work(before: str, after: str | None) -> None:
    _check(HEAD + before, None if after is None else HEAD + after, dataset_edits.shuffle_before_map)


BATCHED = edit_cases(
    """
== numbers of rows
 def f(x, y):
     return tf.math.log(x) / 2.0, y
-ds = tf.data.Dataset.from_tensor_slices(t).map(f).batch(8)  # HERE
+ds = tf.data.Dataset.from_tensor_slices(t).batch(8).map(f)  # HERE
== over a shuffle, line by line
 ds = tf.data.TextLineDataset(p)
-ds = ds.map(lambda x: tf.strings.length(x))  # HERE
-ds = ds.shuffle(9)
+ds = ds.shuffle(9)  # HERE
 ds = ds.batch(8, drop_remainder=True)
+ds = ds.map(lambda x: tf.strings.length(x))
== a cache between
 ds = tf.data.TextLineDataset(p).map(lambda x: tf.strings.length(x)).cache().batch(8)  # HERE
== elements of any shape
 ds = tf.data.Dataset.from_generator(g, tf.float32).map(lambda x: x * 2).batch(8)  # HERE
== padded
 ds = tf.data.Dataset.from_tensor_slices(t).map(lambda x: x * 2).padded_batch(8)  # HERE
== batches already
 ds = tf.data.Dataset.from_tensor_slices(t).batch(8).map(lambda x: x * 2)  # HERE
== a sum over the element
 ds = tf.data.Dataset.from_tensor_slices(t).map(lambda x: tf.reduce_sum(x)).batch(8)  # HERE
== a draw for each element
 ds = tf.data.Dataset.from_tensor_slices(t).map(lambda x: x * tf.random.uniform(())).batch(8)  # HERE
== another map behind it that is no elementwise one
 ds = tf.data.Dataset.from_tensor_slices(t).map(lambda x: x * 2).map(lambda x: x[0]).batch(8)  # HERE
""",
    HEAD,
)


@pytest.mark.parametrize("case", BATCHED.values(), ids=BATCHED)
def test_batch_comes_before_the_map(case: EditCase) -> None:
    assert_edit(case, lambda source, line: batched_maps.batch_before_map(source, line)[0])
