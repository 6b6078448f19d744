"""What the causes of slow input find in source text, written in different ways, and what they leave alone."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from slowtrain.causes import Cause, all_causes
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source

from . import spotted

CASES: dict[str, Any] = {case.name: case for case in spotted.clinic_cases("clinic")}
MINE = {c.id: c for c in all_causes() if c.family in ("input", "transfer") and c.words}
# A file share, the time that many small files take, the rows of arrays that a memory gives: not in the text.
HIDDEN = {"microscope_stacks", "balloon_soundings", "bridge_strain", "vineyard_bands", "lander_memory"}

HEAD = "import numpy as np\nimport tensorflow as tf\n"
LOAD = "def load(f):\n    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(f)), (64, 64))\n"
SIZED = """\
import tensorflow_datasets as tfds
def size(image, label):
    return tf.image.resize(image, (64, 64)), label
"""
NAMES = "files = ['%d.jpg' % i for i in range(500)]\nds = tf.data.Dataset.from_tensor_slices(files)\n"
SHOTS = "frames = np.zeros((4000, 256, 256, 3), dtype=np.uint8)\n"
ROWS = "table = np.random.rand(5000, 12).astype('float32')\n"
END = "ds = ds.batch(32).prefetch(2)\nmodel.fit(ds, epochs=5)\n"
SAMPLES = "xs = np.random.rand(5000, 8)\nys = np.zeros(5000)\ndef gen():\n"
GENERATED = "ds = tf.data.Dataset.from_generator(gen, output_signature=spec)\n"
LAYER = "from keras import layers as kl\nturn = kl.RandomRotation(0.1)\n"
SET = ROWS + "ds = tf.data.Dataset.from_tensor_slices((table, table)).shuffle(5000).batch(32)\n"
RAW = "    return tf.reshape(tf.io.decode_raw(tf.io.read_file(f), tf.uint8), (%s))\nds = ds.map(read)\n"

FOUND = {
    "input/rebuilt-pipeline": [
        SET + "for step in range(900):\n    model.train_on_batch(*next(iter(ds)))\n",
        SET + "for step in range(900):\n    it = iter(ds)\n    x, y = next(it)\n    model.train_on_batch(x, y)\n",
        SET + "def draw():\n    return iter(ds).get_next()\nwhile True:\n    model.train_on_batch(*draw())\n",
    ],
    "input/sequential-map": [
        SIZED + "ds, test = tfds.load('x', split=['train', 'test'])\nds = ds.map(size)\n" + END,
        (
            "from tensorflow import data as d, io\nds = (d.Dataset.list_files('*.png')\n"
            "  .map(lambda f: io.decode_png(f))\n"
            "  .batch(8))\n"
        ),
        LOAD + "def reader(names, stages):\n    ds = tf.data.Dataset.from_tensor_slices(names)\n"
        "    for stage in stages:\n        ds = ds.map(stage)\n    return ds.batch(8).prefetch(2)\n"
        "model.fit(reader(names, [load, scale]))\n",
    ],
    "input/unprefetched-input": [
        LOAD + "class Data:\n    def __init__(self, names):\n        self.names = names\n    def make(self):\n"
        "        return tf.data.Dataset.from_tensor_slices(self.names).map(load, 4).batch(8)\n"
        "class Run:\n    def __init__(self):\n        self.step = tf.function(self._step)\n"
        "    def _step(self, x):\n        with tf.GradientTape() as tape:\n            return self.net(x)\n"
        "    def all(self, ds):\n        for i, x in enumerate(ds):\n            self.step(x)\n"
        "Run().all(Data(names).make())\n",
        (
            "def batches():\n    for k in range(9):\n        yield np.load('%d.npy' % k)\n"
            "for x in batches():\n    model.train_on_batch(x, x)\n"
        ),
        ("import h5py\nf = h5py.File('d.h5')\nx = f['x']\nfor k in range(9):\n    model.train_on_batch(x[k:k + 8])\n"),
    ],
    "input/shuffle-fill": [
        LOAD + NAMES + "ds = ds.map(load, 4)\nds = ds.shuffle(500)\n" + END,
        LOAD + "ds = tf.data.Dataset.list_files('*').map(load).prefetch(2).shuffle(buffer_size=1000)\n" + END,
        "def read(f):\n    return tf.io.read_file(f)\ndef make(n):\n"
        "    ds = tf.data.Dataset.list_files('*').map(read)\n"
        "    return ds.shuffle(n)\nds = make(len(names))\n" + END,
    ],
    "input/oversized-shuffle": [
        SHOTS + "ds = tf.data.Dataset.from_tensor_slices(frames)\n"
        "ds = ds.map(lambda x: tf.cast(x, tf.float32) / 255).shuffle(3000)\n" + END,
        "def load(f):\n    return tf.image.resize(tf.io.decode_png(f), [512, 512])\n"
        "ds = tf.data.Dataset.list_files('*').map(load).shuffle(1000)\n" + END,
        "SIZE = 512\nBUFFER = 2 * 1000\ndef load(f):\n"
        "    return tf.image.resize(tf.io.decode_png(f), (SIZE, SIZE))\n"
        "ds = tf.data.Dataset.list_files('*').map(load).shuffle(BUFFER)\n" + END,
    ],
    "input/per-element-map": [
        "def parse(line):\n    c = tf.io.decode_csv(line, [[0.0]] * 4)\n    return tf.stack(c[:3]), c[3]\n"
        "ds = tf.data.TextLineDataset('x.csv').map(parse, num_parallel_calls=4)\n" + END,
        "spec = {k: tf.io.FixedLenFeature([], tf.int64) for k in 'abc'}\n"
        "spec['d'] = tf.io.FixedLenFeature([8], tf.float32)\n"
        "ds = tf.data.TFRecordDataset('x').map(lambda r: tf.io.parse_single_example(r, spec))\n" + END,
        "N = 9000\nlog = {'a': np.zeros(N), 'b': {'c': np.ones(N)}}\nclass F:\n    def row(self, r):\n"
        "        return tf.math.log1p(r['a']) + tf.sin(r['b']['c'])\n"
        "ds = tf.data.Dataset.from_tensor_slices(log).map(F().row)\n" + END,
        ROWS + "ds = tf.data.Dataset.from_tensor_slices(table).window(9, 1, drop_remainder=True)\n"
        "ds = ds.flat_map(lambda w: w.batch(9))\n" + END,
        "def parse(r):\n    spec = {'a': tf.io.FixedLenFeature([], tf.float32)}\n"
        "    return tf.io.parse_single_example(r, spec)\nds = tf.data.TFRecordDataset('x').shuffle(99)\n"
        "ds = ds.map(parse)\n" + END,
    ],
    "input/uncached-input": [
        LOAD + NAMES + "ds = ds.map(load, 4)\n" + END,
        LOAD + NAMES + "ds = ds.map(load, 4)\nds = ds.batch(8)\nfor epoch in range(5):\n"
        "    for x in ds:\n        step(x)\n",
        LOAD + "ds = tf.data.Dataset.list_files('*').shuffle(99).cache().map(load, 4)\n" + END,
    ],
    "input/unsharded-files": [
        NAMES + "def fetch(f):\n    return tf.io.read_file(f)\nds = ds.map(fetch, 4).batch(64)\n"
        "ds = ds.map(lambda r: tf.reshape(tf.io.decode_raw(r, tf.float32), (64, 3, 256)))\n",
        "SIDE = 24\n" + NAMES + "def read(f):\n" + RAW % "SIDE, SIDE, 1" + END,
        NAMES + "ds = ds.map(lambda f: tf.io.read_file(f)).batch(9)\n"
        "ds = ds.map(lambda r: tf.reshape(tf.io.decode_raw(r, tf.float32), (-1, 40, 10)))\n",
    ],
    "input/python-input": [
        SAMPLES + "    for x, y in zip(xs, ys):\n        yield x, y\n" + GENERATED + END,
        SAMPLES + "    for i in range(5000):\n        yield xs[i], ys[i]\nds = (tf.data.Dataset\n"
        "   .from_generator(\n"
        "   lambda: gen(), spec)\n   .shuffle(9).padded_batch(8))\n",
        (
            "import keras\nclass S(keras.utils.PyDataset):\n    def __getitem__(self, i):\n"
            "        for r in self.rows:\n"
            "            for k in range(len(r)):\n                r[k] = r[k] * 2 + r[k - 1]\n"
            "        return self.rows\n"
            "model.fit(S())\n"
        ),
        (
            "class Loader:\n    def __init__(self, data):\n        self.data = data\n    def __iter__(self):\n"
            "        for k in range(0, len(self.data), 64):\n"
            "            yield np.stack([self.data[i] for i in range(64)])\n"
            "class Data:\n    def __getitem__(self, i):\n        out = []\n        for flag in self.flags[i]:\n"
            "            out.append(flag / 9 if flag else 0)\n        return np.asarray(out)\n"
            "def step(x):\n    with tf.GradientTape() as tape:\n        return net(x)\n"
            "for x in Loader(Data()):\n    step(x)\n"
        ),
        (
            "def hashed(text):\n    v = np.zeros(99)\n    for w in text.split():\n        v[hash(w) % 99] += 1\n"
            "    return v\n"
            "def batches(texts):\n    while True:\n        yield np.stack([hashed(t) for t in draw(texts)])\n"
            "model.fit(batches(texts), steps_per_epoch=9)\n"
        ),
        "def frames(clip):\n    for i in range(61):\n"
        "        out[i] = np.abs(np.fft.rfft(clip[i * 9:i * 9 + 99]))\n    return out\n"
        "ds = tf.data.Dataset.from_tensor_slices(xs).map(lambda x: tf.numpy_function(frames, [x], tf.float32))\n" + END,
    ],
    "input/host-augmentation": [
        LAYER + NAMES + "ds = ds.map(lambda x: turn(x, training=True))\n" + END,
        LAYER
        + "def aug(x, y):\n    return turn(x), y\nds = tf.data.Dataset.from_tensor_slices((a, b)).map(aug)\n"
        + END,
        "aug = tf.keras.Sequential([tf.keras.layers.RandomFlip(), tf.keras.layers.RandomZoom(0.1)])\n"
        + NAMES
        + "ds = ds.map(aug)\n"
        + END,
    ],
    "input/starved-host": [
        "from types import SimpleNamespace\nSET = {'run': {'threads': 1}}\n"
        + LOAD
        + NAMES
        + "def tune(ds, run):\n    o = tf.data.Options()\n    o.threading.private_threadpool_size = run.threads\n"
        "    return ds.with_options(o)\nds = tune(ds.map(load, num_parallel_calls=4), SimpleNamespace(**SET['run']))\n"
        + END,
        LOAD + NAMES + "def options():\n    o = tf.data.Options()\n    o.threading.private_threadpool_size = 1\n"
        "    return o\nds = ds.map(load, num_parallel_calls=4).with_options(options())\n" + END,
        LOAD + NAMES + "o = tf.data.Options()\nTHREADS = 1\n"
        "o.experimental_threading.private_threadpool_size = THREADS\n"
        "ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE)\nds = ds.with_options(o)\n" + END,
    ],
}
QUIET = {
    "input/rebuilt-pipeline": [
        SET + "it = iter(ds.repeat())\nfor step in range(900):\n    model.train_on_batch(*next(it))\n",
        SET + "for epoch in range(9):\n    it = iter(ds)\n    for step in range(99):\n"
        "        model.train_on_batch(*next(it))\n",
        SET + "for step in range(900):\n    if step % 100 == 0:\n        x = next(iter(ds))[0]\n"
        "    model.train_on_batch(x, x)\n",
    ],
    "input/sequential-map": [
        LOAD + "ds = tf.data.Dataset.from_tensor_slices(['a', 'b']).map(load)\n" + END,
        NAMES + "ds = ds.map(lambda f: f)\n" + END,
        "def load(f):\n    return tf.io.decode_png(f)\nresults = executor.map(load, names)\n",
    ],
    "input/unprefetched-input": [
        LOAD + NAMES + "ds = ds.map(load, 4).batch(8).take(1)\nmodel.fit(ds)\n",
        (
            "def batches():\n    for k in range(9):\n        yield table[k]\nfor x in batches():\n"
            "    model.train_on_batch(x)\n"
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\ndef batches():\n"
            "    with ThreadPoolExecutor() as pool:\n"
            "        for k in range(9):\n            yield pool.submit(np.load, 'x').result()\n"
            "for x in batches():\n    model.train_on_batch(x)\n"
        ),
    ],
    "input/shuffle-fill": [
        LOAD + NAMES + "ds = ds.map(load, 4).cache().shuffle(500)\n" + END,
        LOAD + NAMES + "ds = ds.map(load, 4).shuffle(16)\n" + END,
        NAMES + "ds = ds.map(lambda f: f + '.jpg').shuffle(500)\n" + END,
    ],
    "input/oversized-shuffle": [
        SHOTS + "ds = tf.data.Dataset.from_tensor_slices(frames).shuffle(3000)\n" + END,
        SHOTS + "ds = tf.data.Dataset.from_tensor_slices(frames)\n"
        "ds = ds.map(lambda x: tf.cast(x, tf.float32)).shuffle(100)\n" + END,
        "def load(f):\n    return tf.image.resize(tf.io.decode_png(f), [512, 512])\n"
        "ds = tf.data.Dataset.list_files('*').map(load).shuffle(args.buffer)\n" + END,
    ],
    "input/per-element-map": [
        ROWS + "ds = tf.data.Dataset.from_tensor_slices(table).map(lambda r: model(r))\n" + END,
        "spec = {'a': tf.io.FixedLenFeature([], tf.string)}\n"
        "ds = tf.data.TFRecordDataset('x').map(lambda r: tf.io.parse_single_example(r, spec))\n" + END,
        ROWS + "ds = tf.data.Dataset.from_tensor_slices(table).window(9, 1, drop_remainder=True)\n"
        "ds = ds.flat_map(lambda w: w.batch(9)).cache()\n" + END,
        "ds = tf.data.Dataset.from_tensor_slices(np.zeros(9000)).map(lambda r: r / 10)\n" + END,
    ],
    "input/uncached-input": [
        LOAD + NAMES + "ds = ds.map(load, 4).batch(8)\nmodel.fit(ds, epochs=1)\n",
        LOAD + NAMES + "ds = ds.map(lambda f: tf.image.random_flip_left_right(load(f)), 4)\n" + END,
        LOAD + "ds = tf.data.Dataset.list_files('*').map(load, 4).cache().map(turn, 4)\n" + END,
    ],
    "input/unsharded-files": [
        NAMES + "def read(f):\n" + RAW % "2048, 2048" + END,
        LOAD + NAMES + "ds = ds.map(load, 4)\n" + END,
        NAMES + "def read(f):\n" + RAW % "-1, side" + END,
    ],
    "input/python-input": [
        "xs = np.zeros((300, 4))\ndef gen():\n    for x in xs:\n        yield x\n" + GENERATED + END,
        "import h5py\nclass Stream:\n    def __init__(self, name):\n        self.xs = h5py.File(name)['x']\n"
        "    def __call__(self):\n        while True:\n            yield self.xs[rng.integers(99)]\n"
        "ds = tf.data.Dataset.from_generator(Stream('x.h5'), output_signature=spec)\n" + END,
        (
            "import keras\nclass S(keras.utils.PyDataset):\n    def __getitem__(self, i):\n"
            "        for row in range(8):\n            for c in range(3):\n"
            "                self.x[row, c] = self.y[row] * 2\n        return self.x\nmodel.fit(S())\n"
        ),
        (
            "def frames(clips):\n    for i in range(61):\n"
            "        out[:, i] = np.abs(np.fft.rfft(clips[:, i * 9:i * 9 + 99]))\n    return out\n"
            "ds = tf.data.Dataset.from_tensor_slices(xs).batch(64)\n"
            "ds = ds.map(lambda x: tf.numpy_function(frames, [x], tf.float32))\n"
        ),
        SAMPLES + "    for x in xs:\n        yield x\n" + GENERATED + "ds = ds.cache()\n" + END,
    ],
    "input/host-augmentation": [
        LAYER + NAMES + "ds = ds.batch(32).map(lambda x: turn(x, training=True))\n",
        NAMES + "ds = ds.map(lambda x: tf.image.random_flip_up_down(x))\n" + END,
        LAYER + NAMES + "model = kl.Sequential([turn])\n" + END,
    ],
    "input/starved-host": [
        "from types import SimpleNamespace\nSET = {'run': {'threads': 8}}\n"
        + LOAD
        + NAMES
        + "def tune(ds, run):\n    o = tf.data.Options()\n    o.threading.private_threadpool_size = run.threads\n"
        "    return ds.with_options(o)\nds = tune(ds.map(load, num_parallel_calls=4), SimpleNamespace(**SET['run']))\n"
        + END,
        LOAD + NAMES + "o = tf.data.Options()\no.threading.private_threadpool_size = 1\n"
        "ds = ds.map(load).with_options(o)\n" + END,
        LOAD + NAMES + "o = tf.data.Options()\no.threading.private_threadpool_size = 1\n"
        "ds = ds.map(load, num_parallel_calls=4)\n" + END,
    ],
}


def spots(cause: Cause[Any], text: str) -> list[tuple[int, int, str]]:
    """First line, last line and text of what a cause finds, with its words looked at as the linter does."""
    if not any(word in text for word in cause.words):
        return []
    source = parsed(text)
    return [(s.start[0], s.end[0], s.says) for s in cause.spot(source)]


def parsed(text: str) -> Source:
    source = parse_source("train.py", textwrap.dedent(text))
    assert source is not None
    return source


def every(given: dict[str, list[str]]) -> list[Any]:
    return [pytest.param(c, t, id=f"{c.split('/')[1]}-{n}") for c, texts in given.items() for n, t in enumerate(texts)]


@pytest.mark.parametrize(("cause", "text"), every(FOUND))
def test_found(cause: str, text: str) -> None:
    assert spots(MINE[cause], HEAD + text)


@pytest.mark.parametrize(("cause", "text"), every(QUIET))
def test_left_alone(cause: str, text: str) -> None:
    assert spots(MINE[cause], HEAD + text) == []


@pytest.mark.parametrize(("cause", "text"), every(FOUND))
def test_its_edit_cures(cause: str, text: str) -> None:
    """With all of its edits made, one after the other, a cause finds nothing that it could still mend."""
    source = parsed(HEAD + text)
    for _ in range(4):
        able = [s.prescription.edits for s in MINE[cause].spot(source) if s.prescription and s.prescription.edits]
        if not able:
            return
        source = parsed(edits.edited_text(source, able[0]))
    pytest.fail("its edits never end")


def test_each_cause_has_its_examples() -> None:
    transfer = {c for c in MINE if c.startswith("transfer/")}
    assert set(FOUND) == set(QUIET) == set(MINE) - transfer
    assert all(len(texts) >= 3 for texts in (*FOUND.values(), *QUIET.values()))


def labelled() -> list[str]:
    return [n for n, case in CASES.items() if any(c in MINE for c in case.causes) and n not in HIDDEN]


def test_a_labelled_script_is_found_at_its_line() -> None:
    assert labelled()
    assert [name for name in labelled() if not found_at_its_line(name)] == []


def found_at_its_line(name: str) -> bool:
    case = CASES[name]
    text, lines = case.script_text(), set(case.lines)
    found = [spot for cause in case.causes if cause in MINE for spot in spots(MINE[cause], text)]
    return any(lines & set(range(first, last + 1)) for first, last, _ in found)


def test_nothing_in_a_repaired_or_healthy_script() -> None:
    texts = {name: case.cured_text() or case.script_text() for name, case in CASES.items()}
    found = [
        (name, c, spot) for name, text in texts.items() for c, cause in MINE.items() for spot in spots(cause, text)
    ]
    assert texts
    assert found == []


def test_the_labels_are_those_of_the_catalogue() -> None:
    known = json.dumps([c.id for c in all_causes()])
    assert all(json.dumps(c) in known for case in CASES.values() for c in case.causes)
