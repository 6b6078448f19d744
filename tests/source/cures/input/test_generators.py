"""Generators and sequences of batches that make the same in every epoch: text in, exact text out, or no edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.input import dataset_edits, generator_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source
from tests.source.cures.executed import executed_names

HEAD = "import numpy as np\nimport tensorflow as tf\n"
SPEC = "(tf.TensorSpec((3,), tf.float32), tf.TensorSpec((), tf.int64))"
MADE = "from_tensor_slices(\n    tuple(\n        np.array(part, spec.dtype.as_numpy_dtype)\n        for part, spec in "


def _edited(text: str, edit: Callable[[Source, int], Sequence[Edit]]) -> str | None:
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    source = parse_source("train.py", text)
    assert source is not None
    found = edit(source, line)
    new = edits.edited_text(source, found) if found else None
    assert new is None or parse_source("train.py", new) is not None
    return new


def _generator(body: str, spec: str = f"output_signature={SPEC}", made: str = "gen", after: str = "") -> str:
    rows = "".join(f"    {row}\n" for row in body.split("\n"))
    return f"{HEAD}rows = load()\ndef gen():\n{rows}ds = tf.data.Dataset.from_generator({made}, {spec})  #@\n{after}"


GOOD = "for r in rows:\n    yield r[:3], r[3]"
ARRAYS = {
    "a signature": (_generator(GOOD), f"zip(zip(*gen()), {SPEC})"),
    "a multiple": (
        _generator(GOOD, "output_signature=tuple([tf.TensorSpec((), tf.float32)] * 4)"),
        "zip(zip(*gen()), tuple([tf.TensorSpec((), tf.float32)] * 4))",
    ),
}


@pytest.mark.parametrize(("before", "zipped"), ARRAYS.values(), ids=ARRAYS)
def test_samples_become_arrays(before: str, zipped: str) -> None:
    new = _edited(before, generator_edits.use_tensor_slices)
    assert new is not None
    assert f"ds = tf.data.Dataset.{MADE}{zipped}\n    )\n)  #@\n" in new
    assert new.startswith(before[: before.index("ds = ")])


LEFT = {
    "endless": _generator("while True:\n    for r in rows:\n        yield r[:3], r[3]"),
    "endless by itertools": _generator("for r in itertools.cycle(rows):\n    yield r[:3], r[3]"),
    "random": _generator("for i in np.random.permutation(9):\n    yield rows[i, :3], rows[i, 3]"),
    "random in a function": _generator(GOOD.replace("r[3]", "jitter(r)")).replace(
        "def gen", "def jitter(r):\n    return r + np.random.normal()\ndef gen"
    ),
    "goes on where it was": _generator("for k in range(9):\n    yield next(stream)"),
    "counts its calls": _generator(f"global calls\ncalls += 1\n{GOOD}"),
    "any length": _generator(
        GOOD, "output_signature=(tf.TensorSpec((None,), tf.float32), tf.TensorSpec((), tf.int64))"
    ),
    "no shape": _generator(GOOD, "(tf.float32, tf.int64)"),
    "a dictionary": _generator(
        "for r in rows:\n    yield {'x': r}", "output_signature={'x': tf.TensorSpec((4,), tf.float32)}"
    ),
    "part of it only": _generator(GOOD, after="ds = ds.take(100)\n"),
    "some steps an epoch": _generator(GOOD, after="model.fit(ds, steps_per_epoch=100)\n"),
    "rows shuffled between epochs": _generator(
        GOOD, after="for e in range(3):\n    np.random.shuffle(rows)\n    model.fit(ds)\n"
    ),
    "rows changed between epochs": _generator(GOOD, after="for e in range(3):\n    rows[0] = e\n    model.fit(ds)\n"),
    "rows added by a function": _generator(GOOD).replace("def gen", "def more():\n    rows.append(1)\ndef gen"),
    "rows bound again": _generator(GOOD, after="model.fit(ds)\nrows = rows[::-1]\nmodel.fit(ds)\n"),
    "changes its rows": _generator("for r in rows:\n    r -= 1\n    yield r[:3], r[3]"),
    "of another file": _generator(GOOD, made="other"),
    "with arguments": _generator(GOOD, f"args=(1,), output_signature={SPEC}"),
    "a method": _generator(GOOD, made="loader.gen"),
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_a_generator_that_may_differ_is_left_alone(text: str) -> None:
    assert _edited(text, generator_edits.use_tensor_slices) is None


REPEATED = ("endless", "random", "random in a function", "goes on where it was", "rows shuffled between epochs",
            "rows bound again", "changes its rows", "of another file", "counts its calls")  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_nor_is_it_cached(name: str) -> None:
    assert _edited(LEFT[name], lambda s, at: dataset_edits.add_cache(s, at, None, "from_generator")[0]) is None


def test_one_of_any_length_is_cached() -> None:
    new = _edited(LEFT["any length"], lambda s, at: dataset_edits.add_cache(s, at, None, "from_generator")[0])
    assert new is not None
    assert "tf.TensorSpec((), tf.int64))).cache()  #@" in new


SEQUENCE = """\
import numpy as np
from tensorflow import keras


class Windows(keras.utils.{base}):
    def __init__(self, rows, **kwargs):
        super().__init__(**kwargs)
        self.rows = rows

    def __len__(self):
        return len(self.rows) // 8

    def __getitem__(self, index):
        batch = []
        for row in self.rows[index * 8:(index + 1) * 8]:
            batch.append(work(row))  #@
        return np.array(batch)


def work(row):
    return row * 2


model.fit(Windows(rows))
"""


@pytest.mark.parametrize("base", ["Sequence", "PyDataset"])
def test_a_sequence_keeps_its_batches(base: str) -> None:
    text = SEQUENCE.replace("{base}", base)
    expected = text.replace("    def __getitem__", "    @functools.lru_cache(maxsize=None)\n    def __getitem__")
    expected = expected.replace("from tensorflow import keras\n", "from tensorflow import keras\nimport functools\n")
    assert _edited(text, generator_edits.remember_batches) == expected


OTHERWISE = {
    "random work": ("return row * 2", "return row * np.random.rand()"),
    "shuffles at the end of an epoch": (
        "    def __len__",
        "    def on_epoch_end(self):\n        np.random.shuffle(self.rows)\n\n    def __len__",
    ),
    "counts": ("        batch = []\n", "        batch = []\n        self.seen = index\n"),
    "is set from outside": ("model.fit(", "sequence.rows = other\nmodel.fit("),
    "in processes": ("model.fit(Windows(rows))", "model.fit(Windows(rows, use_multiprocessing=True))"),
    "changes the rows": ("        batch = []\n", "        batch = []\n        self.rows[0] = 1\n"),
    "changes a part of the rows": ("            batch.append", "            row -= 1\n            batch.append"),
    "equals others": ("    def __len__", "    def __eq__(self, other):\n        return True\n\n    def __len__"),
    "no sequence": ("keras.utils.{base}", "object"),
}


@pytest.mark.parametrize(("old", "new"), OTHERWISE.values(), ids=OTHERWISE)
def test_a_sequence_that_may_change_is_left_alone(old: str, new: str) -> None:
    assert old in SEQUENCE
    assert _edited(SEQUENCE.replace(old, new).replace("{base}", "Sequence"), generator_edits.remember_batches) is None


ROWS = {
    "numbers of another type": (
        "for k in range(7):\n    yield [k, 0.1, 2], k",
        "output_signature=(tf.TensorSpec((3,), tf.float32), tf.TensorSpec((), tf.int64))",
    ),
    "texts": (
        "for k in range(7):\n    yield str(k), k > 3",
        "output_signature=(tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.bool))",
    ),
    "a list of parts": ("for k in range(7):\n    yield (k,)", "output_signature=(tf.TensorSpec((), tf.float64),)"),
}


@pytest.mark.tensorflow
def test_arrays_hold_the_same_as_the_samples(tmp_path: Path) -> None:
    import tensorflow as tf

    for name, (body, spec) in ROWS.items():
        text = _generator(body, spec).replace("rows = load()\n", "")
        new = _edited(text, generator_edits.use_tensor_slices)
        assert new is not None
        one, other = (executed_names(script, tmp_path)["ds"] for script in (text, new))
        assert one.element_spec == other.element_spec, name
        pairs = list(zip(one.as_numpy_iterator(), other.as_numpy_iterator(), strict=True))
        assert len(pairs) == 7, name
        for a, b in pairs:
            tf.nest.map_structure(np.testing.assert_array_equal, a, b)
