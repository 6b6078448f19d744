"""Where a script can be packed by its text, and the edit that reads the packed elements."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.model import Place
from slowtrain.model.packing import ElementForm, PackedFolder, PackedPart, PackedShard
from slowtrain.script.fixes.input import grain_reading, packed_reading
from slowtrain.script.locations.edits import packing_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source

HEAD = """\
import glob
import tensorflow as tf

def load(path):
    return tf.io.decode_png(tf.io.read_file(path))

def jitter(path):
    return load(path) + tf.random.uniform([])

def rows():
    for n in range(10):
        yield n

files = sorted(glob.glob("*.png"))
"""
FORM = ElementForm((PackedPart("0", "uint8", (8, 8, 3), "raw"), PackedPart("1", "string", (), "string")), "({0}, {1})")


def packed_folder(folder: str, shards: int, elements: int, size: int) -> PackedFolder:
    return PackedFolder(folder, elements, tuple(PackedShard("", 0, size // shards, "") for _ in range(shards)))


def place_in(text: str) -> tuple[Any, Any]:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    line = next(n for n, row in enumerate(source.text.split("\n"), 1) if "#@" in row)
    return source, packing_edits.find_packed_results(trace_of(source), [Place("train.py", line)])


def trace_of(source: Source) -> Any:
    facts = {("sources",): {"train.py": source.text}, ("sources", "train.py"): source.text}
    return SimpleNamespace(
        fact=lambda *names: facts.get(names), events_of=lambda _lane: [], steps=SimpleNamespace(place=None)
    )


PACKED = [
    ("ds = tf.data.Dataset.from_tensor_slices(files).map(load)  #@\n", "files).map(load).apply(read_packed)  #@", True),
    (
        'ds = tf.data.Dataset.list_files("*.png", shuffle=False).map(load).batch(8)  #@\n',
        ".map(load).apply(read_packed).batch(8)",
        True,
    ),
    (
        "ds = tf.data.Dataset.from_tensor_slices(files).shuffle(99).map(load).batch(8)  #@\n",
        ".map(load).apply(read_packed).shuffle(99).batch(8)",
        False,
    ),
    (
        "ds = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([], tf.int32))  #@\n",
        "tf.int32)).apply(read_packed)",
        True,
    ),
    (
        "def data():\n    ds = tf.data.Dataset.from_tensor_slices(files)\n    return ds.map(load)  #@\n\nds = data()\n",
        "return ds.map(load).apply(read_packed)",
        True,
    ),
]


@pytest.mark.parametrize(("text", "wanted", "same_order"), PACKED)
def test_the_edit_reads_packed_elements(text: str, wanted: str, same_order: bool) -> None:
    source, place = place_in(text)
    assert place is not None
    assert place.same_order is same_order
    function = packed_reading.reading_function(FORM, [packed_folder("/data/packed", 1, 10, 10 << 20)])
    found = edits.edited_text(source, packing_edits.reading_edits(source, place, function))
    assert wanted in found
    assert "cache" not in found
    names = [n.name for n in ast.parse(found).body if isinstance(n, ast.FunctionDef)]
    assert names.index("read_packed") == names.index("rows") + 1
    assert place_in(found.removeprefix(HEAD))[1] is None if "#@" in found else True


NOT_PACKED = [
    "ds = tf.data.Dataset.from_tensor_slices(files).map(jitter)  #@\n",
    'ds = tf.data.Dataset.list_files("*.png").map(load)  #@\n',
    'ds = tf.data.Dataset.list_files("*.png", seed=1).map(load)  #@\n',
    "for epoch in range(3):\n    ds = tf.data.Dataset.from_tensor_slices(files).map(load)  #@\n",
    "ds = tf.data.Dataset.from_tensor_slices(files).repeat().map(load)  #@\n",
    "ds = tf.data.Dataset.from_tensor_slices(files).map(load).cache()  #@\n",
]
COUNTS = [
    ("train = data(files)\n", 1),
    ("train, val = data(files[2:]), data(files[:2])\n", 2),
    ("def both():\n    return data(files[2:]), data(files[:2])\n\nx, y = both(), both()\n", 4),
    ("for fold in range(3):\n    train = data(files)\n", None),
    ("def other():\n    return data(files)\n", None),
    ("a, b, c, d, e = data(1), data(2), data(3), data(4), data(5)\n", None),
]


@pytest.mark.parametrize(("text", "count"), COUNTS)
def test_each_data_set_of_a_line_is_counted(text: str, count: int | None) -> None:
    function = "def data(files):\n    return tf.data.Dataset.from_tensor_slices(files).map(load)  #@\n\n"
    _, place = place_in(function + text)
    assert (place.datasets if place is not None else None) == count


@pytest.mark.parametrize("text", NOT_PACKED)
def test_elements_that_may_differ_are_not_packed(text: str) -> None:
    assert place_in(text)[1] is None


def test_a_line_that_the_user_names() -> None:
    text = "ds = tf.data.Dataset.from_generator(unknown, output_signature=tf.TensorSpec([], tf.int32)).batch(3)  #@\n"
    source, place = place_in(text)
    assert place is None
    line = source.text[: source.text.index("#@")].count("\n") + 1
    named = packing_edits.named_results(trace_of(source), Place("train.py", line))
    assert named is not None
    found = edits.edited_text(source, packing_edits.replace_mark(named.marked_edits, "take(3)"))
    assert "tf.int32)).take(3).batch(3)" in found
    assert packing_edits.named_results(trace_of(source), Place("train.py", 1)) is None


def test_the_mark_is_replaced_by_other_operations() -> None:
    source, place = place_in(PACKED[2][0])
    found = edits.edited_text(source, packing_edits.replace_mark(place.marked_edits, "take(64)"))
    assert ".map(load).take(64).shuffle(99).batch(8)" in found


@pytest.mark.parametrize(
    ("size", "storage", "call"), [(100, "string", ".batch(655)"), (10**6, "string", ""), (100, "tensor", "")]
)
def test_small_strings_are_decoded_together(size: int, storage: str, call: str) -> None:
    form = ElementForm((PackedPart("0", "string", (), storage), PackedPart("1", "int64", (), "raw")), "({0}, {1})")
    text = packed_reading.reading_function(form, [packed_folder("/data", 1, 1000, 1000 * size)])
    assert f"buffer_size=8388608){call}\n" in text
    assert ("parse_example" in text) == bool(call)


def test_several_data_sets_are_read_in_their_order() -> None:
    packed = [
        packed_folder("/data/it's-1", 7, 10, 9 << 20),
        packed_folder("/data/b", 1, 5, 5 << 20),
    ]
    text = packed_reading.reading_function(FORM, packed)
    names: dict[str, Any] = {}
    exec(text, names)
    assert list(names["packed_folders"]) == [("/data/it's-1", 7, 10), ("/data/b", 1, 5)]
    assert "folder, shards, elements = next(packed_folders)" in text


ONE = """\
def one(path, label):
    image = tf.io.decode_png(tf.io.read_file(path))
    return tf.image.random_flip_left_right(image), label

"""
CONTENTS = [
    (
        "ds = tf.data.Dataset.from_tensor_slices(files).shuffle(99).map(jitter).batch(8)  #@\n",
        None,  # jitter reads through another function
    ),
    (
        ONE + "ds = tf.data.Dataset.from_tensor_slices((files, labels)).shuffle(99).map(one).batch(8)  #@\n",
        (
            0,
            "def one(path, label, packed_content=None):",
            "tf.io.decode_png((tf.io.read_file(path) if packed_content is None else packed_content))",
            ".from_tensor_slices((files, labels)).apply(read_packed).shuffle(99).map(one).batch(8)",
        ),
    ),
    (
        "ds = tf.data.Dataset.zip((numbers, names)).map(lambda n, p: (n, tf.io.read_file(p)))  #@\n",
        (
            1,
            "lambda n, p, packed_content=None: (n, (tf.io.read_file(p) if packed_content is None else packed_content))",
            ".zip((numbers, names)).apply(read_packed).map(",
        ),
    ),
    ("ds = tf.data.Dataset.from_tensor_slices(files).map(one).map(tf.io.read_file)  #@\n", None),
    ("ds = tf.data.Dataset.from_tensor_slices(files).batch(8).map(lambda p: tf.io.read_file(p))  #@\n", None),
    ("ds = tf.data.Dataset.from_tensor_slices(files).map(lambda p: tf.io.read_file(p + '.png'))  #@\n", None),
    ('ds = tf.data.Dataset.list_files("*.png").map(lambda p: tf.io.read_file(p))  #@\n', None),
    ("ds = tf.data.Dataset.from_tensor_slices(files).map(lambda *p: tf.io.read_file(p[0]))  #@\n", None),
]


@pytest.mark.parametrize(("text", "wanted"), CONTENTS)
def test_the_edit_hands_contents_to_the_function(text: str, wanted: tuple[Any, ...] | None) -> None:
    source = parse_source("train.py", HEAD + text)
    assert source is not None
    line = next(n for n, row in enumerate(source.text.split("\n"), 1) if "#@" in row)
    place = packing_edits.find_packed_contents(trace_of(source), [Place("train.py", line)])
    assert (place is None) == (wanted is None)
    if place is not None and wanted is not None:
        function = packed_reading.reading_function(FORM, [packed_folder("/data/packed", 1, 10, 10 << 20)])
        found = edits.edited_text(source, packing_edits.reading_edits(source, place, function))
        assert place.content_of == wanted[0]
        assert [words for words in wanted[1:] if words not in found] == []
        ast.parse(found)


FIT = "class Rows(keras.utils.PyDataset):\n    pass\n"
FITS = [
    (f"{FIT}model.fit(Rows(), epochs=3)  #@\n", "model.fit(read_packed(), epochs=3)  #@"),
    (f"{FIT}data = Rows()\nmodel.fit(x=data)  #@\n", "model.fit(x=read_packed())  #@"),
    (f"{FIT}def main(data):\n    model.fit(data)  #@\nmain(Rows())\n", "    model.fit(read_packed())  #@"),
    (f"{FIT}model.fit(Rows())  #@\nmodel.fit(Rows())\n", "model.fit(read_packed())  #@\nmodel.fit(Rows())"),
    (f"{FIT}for fold in range(3):\n    model.fit(Rows(fold))  #@\n", None),
    (f"{FIT}def main(data):\n    model.fit(data)  #@\nmain(Rows(1))\nmain(Rows(2))\n", None),
    (f"{FIT}model.fit(*parts)  #@\n", None),
    ("model.summary()  #@\n", None),
]


@pytest.mark.parametrize(("text", "wanted"), FITS)
def test_the_edit_reads_packed_batches(text: str, wanted: str | None) -> None:
    source = parse_source("train.py", f"import keras\n{text}")
    assert source is not None
    line = next(n for n, row in enumerate(source.text.split("\n"), 1) if "#@" in row)
    place = packing_edits.find_packed_batches(source, line)
    assert (place is None) == (wanted is None)
    assert (packing_edits.find_packed_batches(source, None) is None) == (wanted is None or text.count(".fit(") > 1)
    if place is None or wanted is None:
        return
    form = ElementForm(
        (PackedPart("0", "float32", (2, 3), "raw"), PackedPart("y", "int64", (), "raw")), "({0}, {1})", 8
    )
    names, imports = packing_edits.reader_names(source)
    function = grain_reading.batches_function(form, packed_folder("/data/packed", 3, 10, 10 << 20), names)
    found = edits.edited_text(source, [*imports, *packing_edits.reading_edits(source, place, function)])
    assert wanted in found
    assert all(found.count(one) == 1 for one in ("import keras\n", "import grain\n", "import numpy as np\n"))
    ast.parse(found)
