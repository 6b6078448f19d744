"""Names that lead into other files of the project: data sets that they make, functions that they map."""

from __future__ import annotations

import pytest

from .linting import Folder

DATA = """\
import tensorflow as tf


def load(path):
    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path)), (64, 64))


def images(names):
    return tf.data.Dataset.from_tensor_slices(names).shuffle(9)


def batches(names):
    ds = images(names)
    return ds.map(load, num_parallel_calls=4).batch(8)
"""
TRAIN = "import tensorflow as tf\n{0}\nds = {1}\nds = ds.map({2}).batch(8).prefetch(2)\nmodel.fit(ds)\n"
MAP = "input/sequential-map"


@pytest.mark.parametrize(
    ("imported", "made", "mapped"),
    [
        ("from data import images, load", "images(names)", "load"),
        ("from data import images as im, load as ld", "im(names)", "ld"),
        ("import data", "data.images(names)", "lambda p: (data.load(p), 1)"),
        ("from .data import images, load", "images(names)", "load"),
    ],
)
def test_a_data_set_and_a_function_of_another_file(folder: Folder, imported: str, made: str, mapped: str) -> None:
    folder.put(data__py=DATA, train__py=TRAIN.format(imported, made, mapped))
    assert folder.found("train.py") == [("train.py", MAP, 4)]
    assert folder.lint("--fix", "train.py") == 0
    assert "num_parallel_calls=tf.data.AUTOTUNE" in folder.text("train.py")
    assert folder.text("data.py") == DATA


def test_through_a_package_that_hands_the_name_on(folder: Folder) -> None:
    folder.put_bytes("project/data/__init__.py", b"from .files import images, load\n")
    folder.put_bytes("project/data/files.py", DATA.encode())
    text = TRAIN.format("from project.data import images, load", "images(names)", "load")
    folder.put_bytes("project/bin/train.py", text.encode())
    assert folder.found("project/bin") == [("project/bin/train.py", MAP, 4)]


def test_a_pipeline_that_another_file_makes_whole(folder: Folder) -> None:
    folder.put(data__py=DATA, train__py="import keras\nfrom data import batches\nmodel.fit(batches(names))\n")
    assert folder.found("train.py") == [("train.py", "input/unprefetched-input", 3)]
    assert folder.lint("--fix", "train.py") == 0
    assert "model.fit(batches(names).prefetch(tf.data.AUTOTUNE))" in folder.text("train.py")


@pytest.mark.parametrize(
    "data",
    [
        DATA.replace(".shuffle(9)", ".map(load, 4).cache()"),
        DATA.replace("def images", "@wrapped\ndef images"),
        "x = 1\n",
    ],
)
def test_what_is_cached_or_not_certain_there_is_left_alone(folder: Folder, data: str) -> None:
    folder.put(data__py=data, train__py=TRAIN.format("from data import images, load", "images(names)", "load"))
    assert folder.found("train.py") == []


def test_of_two_returns_the_data_set(folder: Folder) -> None:
    data = DATA.replace("    return tf.data", "    if not names:\n        return None\n    return tf.data")
    folder.put(data__py=data, train__py=TRAIN.format("from data import images, load", "images(names)", "load"))
    assert folder.found("train.py") == [("train.py", MAP, 4)]


def test_no_file_no_answer(folder: Folder) -> None:
    folder.put(train__py=TRAIN.format("from nowhere import images, load", "images(names)", "load"))
    assert folder.found("train.py") == []


def test_files_that_import_each_other(folder: Folder) -> None:
    folder.put(
        a__py="from b import f\n", b__py="from a import f\n", train__py=TRAIN.format("from a import f", "f(1)", "f")
    )
    assert folder.found("train.py") == []


def test_inside_the_scope_of_a_strategy(folder: Folder) -> None:
    text = (
        DATA + "with strategy.scope():\n    ds = images(names)\n    ds = ds.map(load)\n    model = make()\n"
        "ds = strategy.experimental_distribute_dataset(ds.batch(8))\nfor x in ds:\n    model.train_on_batch(x)\n"
    )
    folder.put(train__py=text)
    assert ("train.py", MAP, 17) in folder.found("train.py")
    assert "input/unprefetched-input" in {cause for _, cause, _ in folder.found("train.py")}
