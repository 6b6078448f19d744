"""Edits of tf.data pipelines: text in, exact text out, or no edit where the text does not show that one is right."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.input import dataset_edits
from slowtrain.script.pipelines import dataset_chains
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


PREFETCHED = edit_cases(r"""
== line by line in a chain
 import tensorflow as tf
 ds = (
     tf.data.Dataset.range(9)  # all
     .shuffle(9)
-    .batch(3)  # HERE last
+    .batch(3)
+    .prefetch(tf.data.AUTOTUNE)  # HERE last
 )
== backslashes
 import tensorflow as tf
 ds = tf.data.Dataset.range(9) \
     .batch(  # HERE
-3)
+3).prefetch(tf.data.AUTOTUNE)
== in a loop's header
 import tensorflow as tf
 ds = tf.data.Dataset.range(9)
-for x in ds.batch(3):  # HERE
+for x in ds.batch(3).prefetch(tf.data.AUTOTUNE):  # HERE
     print(x)
== in a function
 import tensorflow as tf
 def make(n):
     ds = tf.data.Dataset.range(n)
-    return ds.batch(3)  # HERE
+    return ds.batch(3).prefetch(tf.data.AUTOTUNE)  # HERE
== before what is no operation
 import tensorflow as tf
-it = tf.data.Dataset.range(9).batch(3).as_numpy_iterator()  # HERE
+it = tf.data.Dataset.range(9).batch(3).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()  # HERE
== tuning switched off
 import tensorflow as tf
 o = tf.data.Options()
 o.autotune.enabled = False
-ds = tf.data.Dataset.range(9).with_options(o).batch(3)  # HERE
+ds = tf.data.Dataset.range(9).with_options(o).batch(3).prefetch(2)  # HERE
== both of a zip
 import tensorflow as tf
 a = tf.data.Dataset.range(9)
-ds = tf.data.Dataset.zip((a.batch(3), a.batch(3)))  # HERE
+ds = tf.data.Dataset.zip((a.batch(3), a.batch(3))).prefetch(tf.data.AUTOTUNE)  # HERE
== there already
 import tensorflow as tf
 ds = tf.data.Dataset.range(9).batch(3).prefetch(1)  # HERE
== there on the next line
 import tensorflow as tf
 ds = tf.data.Dataset.range(9).batch(3)  # HERE
 ds = ds.prefetch(1)
== two chains in a line
 import tensorflow as tf
 b = tf.data.Dataset.range(9)
 b, c = b.take(3).batch(3), b.skip(3).batch(3)  # HERE
== threads, no data set
 found = pool.map(work, range(9))  # HERE
== a pool by another name
 from x import y
 with y() as executor:
     r = executor.map(f, range(9))  # HERE
""")


@pytest.mark.parametrize("case", PREFETCHED.values(), ids=PREFETCHED)
def test_a_pipeline_ends_in_a_prefetch(case: EditCase) -> None:
    assert_edit(case, dataset_edits.add_prefetch)


PARALLEL = {
    "a function": (
        "ds = tf.data.Dataset.range(9).map(f)  #@\n",
        "ds = tf.data.Dataset.range(9).map(f, num_parallel_calls=tf.data.AUTOTUNE)  #@\n",
    ),
    "a lambda, a comma": (
        "ds = ds.map(\n    lambda x: x + 1,  #@\n)\n",
        "ds = ds.map(\n    lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE,  #@\n)\n",
    ),
    "by place": ("ds = ds.map(f, None)  #@\n", "ds = ds.map(f, tf.data.AUTOTUNE)  #@\n"),
    "two in a line": (
        "ds = ds.map(f).map(g).batch(2)  #@\n",
        (
            "ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)"
            ".map(g, num_parallel_calls=tf.data.AUTOTUNE).batch(2)  #@\n"
        ),
    ),
    "CRLF": (
        "ds = ds.map(f)  #@\r\nprint(1)\r\n",
        "ds = ds.map(f, num_parallel_calls=tf.data.AUTOTUNE)  #@\r\nprint(1)\r\n",
    ),
    "parallel already": ("ds = ds.map(f, num_parallel_calls=4)  #@\n", None),
    "arguments nobody sees": ("ds = ds.map(f, **more)  #@\n", None),
    "Python inside": ("def f(x):\n    return tf.py_function(g, [x], tf.float32)\nds = ds.map(f)  #@\n", None),
    "a count of its calls": ("def f(x):\n    seen.assign_add(1)\n    return x\nds = ds.map(f)  #@\n", None),
    "the built-in": ("xs = list(map(f, ys))  #@\n", None),
}


@pytest.mark.parametrize(("before", "after"), PARALLEL.values(), ids=PARALLEL)
def test_a_map_makes_several_elements_at_once(before: str, after: str | None) -> None:
    _check(HEAD + before, None if after is None else HEAD + after, dataset_edits.parallelise_map)


def test_of_two_maps_in_a_line_the_named_one_is_parallel() -> None:
    text = HEAD + "def f(x):\n    return x\ndef g(x):\n    return x\nds = ds.map(f).map(g)  #@\n"
    new = _edited(text, lambda s, at: dataset_edits.parallelise_map(s, at, 4))
    assert new == text.replace("map(g)", "map(g, num_parallel_calls=tf.data.AUTOTUNE)")


THREADS = {
    "a line of its own": (
        "o = tf.data.Options()\no.threading.private_threadpool_size = 1\nds = ds.with_options(o)  #@\n",
        "o = tf.data.Options()\nds = ds.with_options(o)  #@\n",
    ),
    "all that an if holds": (
        "if small:\n    o.threading.private_threadpool_size = 1  #@\n",
        "if small:\n    o.threading.private_threadpool_size = 0  #@\n",
    ),
    "no limit": ("o.threading.private_threadpool_size = 0  #@\n", None),
    "two of them": (
        "a.threading.private_threadpool_size = 1\nb.threading.private_threadpool_size = 2\nds.with_options(a)  #@\n",
        None,
    ),
}


@pytest.mark.parametrize(("before", "after"), THREADS.values(), ids=THREADS)
def test_the_limit_on_threads_goes(before: str, after: str | None) -> None:
    _check(before, after, dataset_edits.remove_thread_limit)


READERS = {
    "many files": (
        "names = sorted(glob.glob('*.tfrecord'))\nds = tf.data.TFRecordDataset(names)  #@\n",
        (
            "names = sorted(glob.glob('*.tfrecord'))\n"
            "ds = tf.data.TFRecordDataset(names, num_parallel_reads=tf.data.AUTOTUNE)  #@\n"
        ),
        False,
    ),
    "interleaved one after the other": (
        "ds = tf.data.Dataset.list_files('*').interleave(tf.data.TFRecordDataset, cycle_length=4)  #@\n",
        (
            "ds = tf.data.Dataset.list_files('*').interleave(tf.data.TFRecordDataset, cycle_length=4, "
            "num_parallel_calls=tf.data.AUTOTUNE)  #@\n"
        ),
        True,
    ),
    "one file": ("ds = tf.data.TFRecordDataset('a.tfrecord')  #@\n", None, False),
    "perhaps one": ("def f(path):\n    return tf.data.TFRecordDataset(path)  #@\n", None, False),
    "told already": ("ds = tf.data.TFRecordDataset(['a', 'b'], num_parallel_reads=2)  #@\n", None, False),
}


@pytest.mark.parametrize(("before", "after", "ordered"), READERS.values(), ids=READERS)
def test_several_files_are_read_at_once(before: str, after: str | None, ordered: bool) -> None:
    _check(
        HEAD + before,
        None if after is None else HEAD + after,
        lambda s, at: dataset_edits.read_files_in_parallel(s, at)[0],
    )
    source = parse_source("train.py", HEAD + before)
    assert source is not None
    assert after is None or dataset_edits.read_files_in_parallel(source, _line(HEAD + before))[1] is ordered


NESTED = "def one(path):\n    return tf.data.TextLineDataset(path).map({of})\n"
OPENED = "ds = tf.data.Dataset.list_files('*').interleave(one, cycle_length=8{more})  #@\n"


@pytest.mark.parametrize(
    ("of", "more", "done"),
    [
        ("tf.io.decode_base64", "", True),
        ("lambda x: x + tf.random.uniform(())", "", False),
        ("lambda x: tf.py_function(f, [x], tf.string)", "", False),
        ("tf.io.decode_base64", ", num_parallel_calls=2", False),
        ("tf.io.decode_base64", ", deterministic=False", False),
    ],
)
def test_small_files_are_opened_alongside(of: str, more: str, done: bool) -> None:
    before = HEAD + NESTED.format(of=of) + OPENED.format(more=more)
    after = before.replace("cycle_length=8", "cycle_length=8, num_parallel_calls=tf.data.AUTOTUNE")
    _check(before, after if done else None, dataset_edits.open_files_in_parallel)


FLOWS = {
    "through a loop": (
        "ds = tf.data.Dataset.range(9)\nfor f in fs:\n    ds = ds.map(f)\nds = ds.batch(3)  #@\n",
        ["range", "map", "batch"],
        True,
    ),
    "of two branches": (
        (
            "ds = tf.data.Dataset.range(9)\nif train:\n    ds = ds.shuffle(9)\nelse:\n    ds = ds.take(2)\n"
            "ds = ds.batch(3)  #@\n"
        ),
        ["batch"],
        False,
    ),
    "of an attribute": (
        (
            "class A:\n    def __init__(self):\n        self.ds = tf.data.Dataset.range(9)\n"
            "    def run(self):\n        return self.ds.batch(3)  #@\n"
        ),
        ["range", "batch"],
        True,
    ),
    "of the module, in a function": (
        "base = tf.data.Dataset.range(9)\ndef make():\n    return base.batch(3)  #@\n",
        ["range", "batch"],
        True,
    ),
}


@pytest.mark.parametrize(("text", "names", "whole"), FLOWS.values(), ids=FLOWS)
def test_a_pipeline_is_followed_to_its_source(text: str, names: list[str], whole: bool) -> None:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    last = dataset_chains.chain_at(source, _line(HEAD + text))
    assert last is not None
    flow = dataset_chains.upstream_chain(source, last)
    assert list(flow.names) == names
    assert flow.whole is whole


def test_a_cache_on_the_disk_is_removed_with_the_script() -> None:
    load = "def load(n):\n    return tf.io.read_file(n)\ndef made(n):\n"
    text = "    return tf.data.Dataset.from_tensor_slices(n).map(load)  #@\nds = made(names)\n"
    held = 'kept_elements = tempfile.TemporaryDirectory(dir=".")\n'
    kept = text.replace("(load)", '(load).cache(tempfile.mkdtemp(dir=kept_elements.name) + "/cache")')
    after = "import tempfile\n" + HEAD + load.replace("def made", f"{held}def made") + kept
    source = parse_source("train.py", HEAD + load + text)
    assert source is not None
    made, same = dataset_edits.add_disk_cache(source, source.text[: source.text.index("#@")].count("\n") + 1)
    assert edits.edited_text(source, made).replace("import tempfile\n", "") == after.replace("import tempfile\n", "")
    assert "import tempfile\n" in edits.edited_text(source, made)
    assert same


def test_a_generator_is_cached_on_the_disk() -> None:
    rows = "def rows():\n    for n in range(9):\n        yield n\n"
    text = "ds = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.int32)).batch(4)  #@\n"
    source = parse_source("train.py", HEAD + rows + text)
    assert source is not None
    made, same = dataset_edits.add_disk_cache(source, _line(source.text), None, "from_generator")
    found = edits.edited_text(source, made)
    assert 'tf.int32)).cache(tempfile.mkdtemp(dir=kept_elements.name) + "/cache").batch(4)' in found
    assert same


NOT_CACHED = {
    "kept already": "ds = tf.data.Dataset.from_tensor_slices(n).map(load).cache()  #@\n",
    "kept before": "ds = tf.data.Dataset.from_tensor_slices(n).cache().map(load)  #@\n",
    "drawn": "ds = tf.data.Dataset.from_tensor_slices(n).map(tf.image.random_hue)  #@\n",
    "repeated": "ds = tf.data.Dataset.from_tensor_slices(n).repeat().map(load)  #@\n",
}


@pytest.mark.parametrize("text", NOT_CACHED.values(), ids=NOT_CACHED)
def test_a_cache_that_must_stay(text: str) -> None:
    load = "def load(n):\n    return tf.io.read_file(n)\n"
    _check(HEAD + load + text, None, lambda source, line: dataset_edits.add_cache(source, line)[0])


UNORDERED = {
    "a map": (
        "ds = tf.data.Dataset.range(9).map(load, num_parallel_calls=4)  #@\n",
        "ds = tf.data.Dataset.range(9).map(load, num_parallel_calls=4, deterministic=False)  #@\n",
    ),
    "one call at a time": ("ds = tf.data.Dataset.range(9).map(load)  #@\n", None),
    "any order already": ("ds = tf.data.Dataset.range(9).map(load, 4, False)  #@\n", None),
    "a setting": ("ds = tf.data.Dataset.range(9).map(load, 4, deterministic=repeatable)  #@\n", None),
    "arguments that nobody sees": ("ds = tf.data.Dataset.range(9).map(load, **how)  #@\n", None),
}


@pytest.mark.parametrize(("before", "after"), UNORDERED.values(), ids=UNORDERED)
def test_elements_in_any_order(before: str, after: str | None) -> None:
    _check(HEAD + before, None if after is None else HEAD + after, dataset_edits.allow_any_order)


CALLED = {
    "an object that is called": (
        """
        class Front:
            def __init__(self, size):
                self.size = size
            def __call__(self, n):
                return tf.io.read_file(n)[: self.size]
        ds = tf.data.Dataset.from_tensor_slices(n).map(Front(3))  #@
        """,
        ".map(Front(3)).cache()",
    ),
    "one whose weights are trained": (
        """
        class Front:
            def __init__(self):
                self.gain = tf.Variable(1.0)
            def __call__(self, n):
                return n * self.gain
        ds = tf.data.Dataset.from_tensor_slices(n).map(Front())  #@
        """,
        None,
    ),
    "one that draws": (
        """
        class Front:
            def __call__(self, n):
                return tf.image.random_hue(n, 0.1)
        ds = tf.data.Dataset.from_tensor_slices(n).map(Front())  #@
        """,
        None,
    ),
    "a frozen model": (
        """
        base = build()
        base.trainable = False
        def embed(n):
            return base(n, training=False)
        ds = tf.data.Dataset.from_tensor_slices(n).map(embed)  #@
        """,
        ".map(embed).cache()",
    ),
    "one that thaws": (
        """
        base = build()
        base.trainable = False
        def embed(n):
            return base(n, training=False)
        ds = tf.data.Dataset.from_tensor_slices(n).map(embed)  #@
        base.trainable = True
        """,
        None,
    ),
    "one that is trained": (
        """
        base = build()
        def embed(n):
            return base(n, training=False)
        ds = tf.data.Dataset.from_tensor_slices(n).map(embed)  #@
        """,
        None,
    ),
}


@pytest.mark.parametrize(("text", "after"), CALLED.values(), ids=CALLED)
def test_what_is_called_gives_the_same_or_not(text: str, after: str | None) -> None:
    text = HEAD + textwrap.dedent(text)
    before = ".map(embed)" if "embed" in text else ".map(Front(3))"
    wanted = text.replace(before, after) if after else None
    _check(text, wanted, lambda source, line: dataset_edits.add_cache(source, line)[0])
