"""The same mistakes of slow input and miscounted epochs, handed over in other ways; and what only looks like them."""

from __future__ import annotations

import pytest

from . import spotted

LOAD = "def load(f):\n    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(f)), (64, 64))\n"
MEL = "def mel(x):\n    return tf.abs(tf.signal.stft(x, 256, 64))\n"
STORE = (
    "class Store:\n    def __init__(self, files):\n        self.files = files\n    def base(self, part):\n"
    "        return tf.data.TFRecordDataset(self.files[part]).map(load, 4).cache()\n    def train(self, seed):\n"
    "        return self.base('train').shuffle(99, seed=seed).batch(8).prefetch(2)\n"
)
OPTION = (
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=%s)\na = p.parse_args()\n"
)
NAMES = "ds = tf.data.Dataset.list_files('*.jpg', shuffle=False)"
ROWS = "ds = tf.data.Dataset.from_tensor_slices(x)"
TICKETS = (
    "class Tickets:\n    def __init__(self, rows):\n        self.rows = rows\n    def vector(self, text):\n"
    "        v = np.zeros(99)\n        for i in range(len(text) - 2):\n"
    "            a, b, c = text[i:i + 3].encode()\n            v[(a + b + c) % 99] += 1.0\n        return v\n"
    "    def __call__(self):\n        for text in self.rows:\n            yield self.vector(text)\n"
)
MADE = "    return tf.data.Dataset.from_generator(%s, output_signature=spec).batch(8).prefetch(2)\n"
ATOMS = (
    "class Atoms(%s):\n    def count(self, points):\n%s    def __getitem__(self, i):\n"
    "        return np.array([self.count(self.all[k]) for k in self.order[i]])\nmodel.fit(Atoms())\n"
)
PAIRS = (
    "        close = 0\n        for p in points:\n            for q in points:\n                if abs(p - q) < 1:\n"
    "                    close += 1\n        return close\n"
)
STEP = "@tf.function\ndef step(x):\n    with tf.GradientTape() as t:\n        return t.gradient(net(x), net.weights)\n"
TRIP = (
    "class Trip:\n    def __init__(self, r):\n        self.track = %s\n        self.minutes = 3.0\n"
    "trips = [Trip(np.random.default_rng(k)) for k in range(900)]\n"
)
FEED = "def turns(order):\n    for at in range(0, 900, 64):\n        group = [trips[i] for i in order[at:at + 64]]\n%s"
RECORDS = "ds = tf.data.TFRecordDataset(names).map(parse, 4).batch(64).prefetch(2)\nmodel.fit(ds, epochs=2)\n"
PARALLEL = LOAD + NAMES + ".map(load, num_parallel_calls=%s).batch(8)\nmodel.fit(ds)\n"
ONE = "tf.config.threading.set_inter_op_parallelism_threads(%s)\n"

FOUND: dict[str, list[tuple[str, int]]] = {
    "input/uncached-input": [
        (
            LOAD
            + STORE
            + "s = Store(names)\nfor k in range(9):\n    data = s.train(k)\n    model.fit(data, epochs=1)\n",
            12,
        ),
        (
            LOAD
            + STORE
            + "s = Store(names)\nfor k in range(9):\n    model.fit(s.train(k), initial_epoch=k, epochs=k + 1)\n",
            12,
        ),
        (
            LOAD
            + "files = sorted(found)\nwhile busy():\n    ds = tf.data.Dataset.from_tensor_slices(files).map(load, 4)\n"
            "    ds = ds.cache().batch(8)\n    model.fit(ds)\n",
            6,
        ),
        (
            LOAD + "def held():\n    return tf.data.Dataset.from_tensor_slices(files).map(load).cache().batch(8)\n"
            "for k in range(9):\n    model.fit(x, y, validation_data=held())\n",
            6,
        ),
        (
            MEL + "def centre(x):\n    return x - tf.reduce_mean(x)\n" + ROWS + ".map(centre).cache().shuffle(99)\n"
            "ds = ds.map(mel, 4).batch(8)\nmodel.fit(ds, epochs=9)\n",
            5,
        ),
        (
            LOAD + "blobs = ['%d' % k for k in range(90)]\nds = tf.data.Dataset.from_tensor_slices(blobs)\n"
            "ds = ds.map(tf.io.read_file).cache().map(lambda b: tf.image.resize(tf.io.decode_jpeg(b), (32, 32)))\n"
            "ds = ds.batch(8)\nmodel.fit(ds, epochs=9)\n",
            5,
        ),
    ],
    "input/sequential-map": [(OPTION % None + PARALLEL % "a.n", 7), (PARALLEL % "1", 3)],
    "input/python-input": [
        (
            TICKETS
            + "import functools\ndef made(source):\n"
            + MADE % "functools.partial(source)"
            + "t = Tickets(rows)\nmodel.fit(made(t))\n",
            6,
        ),
        (TICKETS + "def made(source):\n" + MADE % "source" + "model.fit(made(Tickets(rows).__call__))\n", 6),
        (
            TICKETS.replace("i:i + 3", "i:i + 64")
            + "def made(source):\n"
            + MADE % "source"
            + "model.fit(made(Tickets(rows)))\n",
            14,  # what of a ticket takes long the text does not show
        ),
        (ATOMS % ("keras.utils.PyDataset", PAIRS), 5),
        (ATOMS % ("keras.utils.PyDataset", "        return [sum(1 for q in points if q < p) for p in points]\n"), 3),
    ],
    "input/unsharded-files": [
        (
            "for k in range(6000):\n    with tf.io.TFRecordWriter('%d.tfr' % k) as out:\n        out.write(record(k))\n"
            + RECORDS,
            2,
        ),
        (
            "EACH = 4\nfor at in range(0, 6000, EACH):\n    out = tf.io.TFRecordWriter('%d' % at)\n"
            "    for k in range(EACH):\n        out.write(record(at + k))\n    out.close()\n" + RECORDS,
            3,
        ),
    ],
    "transfer/per-step-feed": [],
    "machine/limited-host": [
        (
            (
                "import ast\nRUN = ast.literal_eval('{\"threads\": 1}')\nmodel.fit(x)\n"
                "tf.config.threading.set_intra_op_parallelism_threads(RUN['threads'])\n"
            ),
            4,
        ),
        (
            (
                "class Run:\n    threads: int = 1\ndef limit(run):\n"
                "    tf.config.threading.set_intra_op_parallelism_threads(run.threads)\nlimit(Run())\nmodel.fit(x)\n"
            ),
            4,
        ),
        ("import os\nRUN = {'threads': 1}\nos.environ['OMP_NUM_THREADS'] = str(RUN['threads'])\nmodel.fit(x)\n", 3),
        ("import os\nos.environ.update({'OMP_NUM_THREADS': '1'})\nmodel.fit(x)\n", 2),
        (
            (
                "import os\nfor name in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS'):\n    os.environ[name] = '1'\n"
                "model.fit(x)\n"
            ),
            3,
        ),
        (ONE % 1 + PARALLEL % "4", 1),
        ("RUN = {'inter': 1}\n" + ONE % "RUN['inter']" + PARALLEL % "tf.data.AUTOTUNE", 2),
    ],
    "host/miscounted-steps": [
        (ROWS + ".repeat(5).batch(8)\nmodel.fit(ds, epochs=5)\n", 1),
        (
            (
                "N = 9\nclass R:\n    def __init__(self, turns):\n        self.turns = turns\n    def data(self):\n"
                "        return tf.data.Dataset.from_tensor_slices(x).batch(8).repeat(self.turns)\n"
                "model.fit(R(N).data(), epochs=N)\n"
            ),
            6,
        ),
        (
            ROWS
            + ".repeat(ROUNDS).batch(8)\nfor r in range(ROUNDS):\n    for x in ds:\n        model.train_on_batch(x)\n",
            1,
        ),
        (ROWS + ".batch(8).repeat(N)\nmodel.fit(x, y, epochs=N, validation_data=ds)\n", 1),
        (
            "cfg = {'passes': 8}\n"
            + ROWS
            + ".repeat(count=cfg['passes']).batch(8)\nmodel.fit(ds, epochs=cfg['passes'])\n",
            2,
        ),
    ],
}

QUIET: dict[str, list[str]] = {
    "input/uncached-input": [
        # Several passes over each, a file that is kept, one data set for all turns, other data in each turn.
        LOAD
        + STORE.replace("cache()", "cache('kept')")
        + "s = Store(names)\nfor k in range(9):\n    model.fit(s.train(k))\n",
        LOAD + STORE + "for k in range(9):\n    s = Store(names[k])\n    model.fit(s.train(k))\n",
        LOAD
        + STORE
        + "    def more(self):\n        self.files = find()\ns = Store(names)\nfor k in range(9):\n    s.more()\n"
        "    model.fit(s.train(k))\n",
        LOAD + "for k in range(9):\n    part = rng.choice(files, 90)\n"
        "    ds = tf.data.Dataset.from_tensor_slices(part).map(load, 4).cache().batch(8)\n    model.fit(ds)\n",
        "for k in range(9):\n    model.fit(tf.data.Dataset.from_tensor_slices(x).map(tf.abs).cache().batch(8))\n",
        # Random work between, little work, results of nobody knows what size.
        MEL
        + "def noisy(x):\n    return x + tf.random.normal((9,))\n"
        + ROWS
        + ".cache().map(noisy, 4).map(mel, 4).batch(8)\nmodel.fit(ds, epochs=9)\n",
        ROWS + ".cache().map(lambda v: tf.cast(v, tf.float32) / 255).batch(8)\nmodel.fit(ds, epochs=9)\n",
        "def decode(b):\n    return tf.io.decode_jpeg(b)\n"
        + ROWS
        + ".cache().map(decode, 4).batch(8)\nmodel.fit(ds, epochs=9)\n",
        "(x, y), _ = keras.datasets.cifar10.load_data()\ndef large(v):\n    return tf.image.resize(v, (224, 224))\n"
        + ROWS
        + ".cache().map(large, 4).batch(8)\nmodel.fit(ds, epochs=9)\n",
        MEL + ROWS + ".cache().map(mel, 4).batch(8)\nmodel.fit(ds)\n",
    ],
    "input/sequential-map": ["C = {'workers': 1}\nC['workers'] = many()\n" + PARALLEL % "C['workers']"],
    "input/python-input": [
        TICKETS + "def made(source):\n" + MADE % "source" + "model.fit(made(other))\n",
        ATOMS % ("keras.utils.PyDataset", "        return np.sum(np.abs(points[:, None] - points) < 1)\n"),
        ATOMS % ("keras.utils.PyDataset", "        return points + [0 for k in range(99 - len(points))]\n"),
        (ATOMS % ("keras.utils.PyDataset", PAIRS)).replace("Atoms())", "Atoms(workers=4))"),
    ],
    "input/unsharded-files": [
        "for k in range(6000):\n    with tf.io.TFRecordWriter('%d' % k) as out:\n        for r in rows[k]:\n"
        "            out.write(r)\n" + RECORDS,
        "for k in range(40):\n    with tf.io.TFRecordWriter('%d' % k) as out:\n        out.write(record(k))\n"
        + RECORDS,
        "for k in range(6000):\n    with tf.io.TFRecordWriter('%d.tfr' % k) as out:\n        out.write(record(k))\n"
        + RECORDS.replace(".batch", ".cache().batch"),
    ],
    "transfer/per-step-feed": [
        STEP + TRIP % "load(r)" + FEED % "        step(tf.convert_to_tensor([t.track for t in group], tf.float32))\n"
    ],
    "machine/limited-host": [
        (
            "import json\nRUN = json.loads('{\"threads\": 1')\nmodel.fit(x)\n"
            "tf.config.threading.set_intra_op_parallelism_threads(RUN['threads'])\n"
        ),
        "import os\nos.environ.update({'OMP_NUM_THREADS': '8', 'SEED': '1'})\nmodel.fit(x)\n",
        ONE % 1 + PARALLEL % "1",
        ONE % 0 + PARALLEL % "4",
        ONE % 1 + ROWS + ".map(lambda v: v / 2, 4).batch(8)\nmodel.fit(ds)\n",
    ],
    "host/miscounted-steps": [
        ROWS + ".repeat(5).batch(8)\nmodel.fit(ds, epochs=3)\n",
        ROWS
        + ".repeat(ROUNDS).batch(8)\nfor r in range(ROUNDS):\n    for x in ds:\n        if not x:\n            break\n"
        "        model.train_on_batch(x)\n",
        ROWS + ".repeat(ROUNDS).batch(8)\nfor r in range(FOLDS):\n    for x in ds:\n        model.train_on_batch(x)\n",
        "rows = np.zeros((9, 9)).repeat(8)\nmodel.fit(rows, y, epochs=8)\n",
        (
            "def reader(f, on):\n    ds = tf.data.TFRecordDataset(f)\n    if on:\n"
            "        ds = ds.repeat(ROUNDS)\n"
            "    return ds.batch(8)\nmodel.fit(reader(f, False), epochs=ROUNDS)\n"
        ),
    ],
}


@pytest.mark.parametrize(("cause", "text", "line"), [(c, t, n) for c, rows in FOUND.items() for t, n in rows])
def test_found(cause: str, text: str, line: int) -> None:
    assert spotted.lines(cause, text) == [line]


@pytest.mark.parametrize(("cause", "text"), [(c, t) for c, rows in QUIET.items() for t in rows])
def test_near_misses(cause: str, text: str) -> None:
    assert spotted.lines(cause, text) == []
