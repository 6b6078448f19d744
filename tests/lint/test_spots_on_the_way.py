"""Input, copies and what is kept, found by going through the script: the same mistake written in several ways."""

from __future__ import annotations

import pytest

from . import spotted

STEP = (
    "w = tf.Variable(tf.zeros((400, 300)))\nopt = keras.optimizers.SGD()\n@tf.function\ndef step(x, y=0):\n"
    "    with tf.GradientTape() as tape:\n        each = tf.square(tf.matmul(x, w) - 1.0)\n"
    "        loss = tf.reduce_mean(each)\n"
    "    opt.apply_gradients([(tape.gradient(loss, w), w)])\n    return loss, tf.reduce_mean(each, axis=1)\n"
)
TABLE = "cols = {k: np.random.rand(9000) for k in ('a', 'b')}\ny = np.zeros(9000)\n"
FEATURES = "def features(row, y):\n    return tf.stack([row['a'], tf.sin(row['b'])], -1), y\n"
DATA = "tf.data.Dataset.from_tensor_slices("
LOAD = "def load(f):\n    return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(f), channels=3), (32, 32))\n"
FILES = "import glob\nfiles = sorted(glob.glob('*.jpg'))\n"
POOL = "pool = np.random.rand(60000, 8)\n"
LOOP = "for i in range(900):\n"
DRAWN = "    x = np.random.rand(64, 400).astype('float32')\n"
BOARDS = (
    "class Feed:\n    def __init__(self, texts):\n        self.texts = texts\n    def __iter__(self):\n"
    "        return self\n%s    def __next__(self):\n        rows = np.random.randint(0, 99, 64)\n"
    "        return np.stack([self.encode(self.texts[i]) for i in rows]), 0\nfor x, y in Feed(read()):\n"
    "    step(x, y)\n"
)

DRAWS = (
    "import random, itertools\nclass Sampler:\n    def __init__(self, seen):\n        self.seen = seen\n"
    "    def __iter__(self):\n        return self\n    def one(self):\n        others = []\n%s        return others\n"
    "    def __next__(self):\n        return np.array([self.one() for _ in range(256)])\n"
    "for i, x in enumerate(itertools.islice(Sampler(read()), 900)):\n    step(x)\n"
)
REJECTED = (
    "        while len(others) < %s:\n            j = random.randrange(9000)\n"
    "            if j not in self.seen:\n                others.append(j)\n"
)
CSV = (
    "class Run:\n    def parse(self, line):\n        c = tf.io.decode_csv(line, [[0.0]] * 4)\n"
    "        return tf.stack(c[:3]), c[3]\n    def data(self):\n        ds = tf.data.TextLineDataset(['a.csv'])\n"
)

FOUND: dict[str, list[tuple[str, int]]] = {
    "input/per-element-map": [
        (TABLE + FEATURES + f"class Run:\n    def __init__(self, c):\n        self.ds = {DATA}(c, y)).map(features)\n"
         "    def go(self):\n        model.fit(self.ds.batch(8))\nRun(cols).go()\n", 7),
        (TABLE + "import functools\ndef features(row, y, k):\n    return row['a'] * k + row['b'], y\n"
         f"d = {DATA}(cols, y)).map(lambda r, t: features(r, t, 2.0)).batch(8)\n" + STEP + "for x, t in d:\n"
         "    step(x, t)\n", 6),
        ((f"def read(f):\n    return tf.reshape(tf.io.decode_raw(tf.io.read_file(f), tf.float32), [500, 9])\n{FILES}"
         f"d = {DATA}files).map(read, 4).unbatch().map(lambda r: (r[1:], r[0])).batch(8)\nmodel.fit(d)\n"), 5),
    ],
    "input/sequential-map": [
        (LOAD + FILES + f"def make(cfg):\n    return {DATA}cfg['files']).map(load).batch(8)\n"
         "model.fit(make({'files': files}))\n", 6),
    ],
    "input/unprefetched-input": [
        (STEP + LOAD + FILES + f"def sets():\n    d = {DATA}files).map(load, 4)\n    return d.take(9), d.batch(8)\n"
         "_, d = sets()\nfor i, x in enumerate(d):\n    step(x)\n", 16),
    ],
    "input/oversized-shuffle": [
        (
            ("def floats(p):\n    return tf.cast(p, tf.float32) / 255.0\ndef make(p, n):\n"
            f"    d = {DATA}p).map(floats, 4)\n"
            "    return d.shuffle(n).batch(8)\nx = np.zeros((9000, 256, 256, 3), 'uint8')\n"
            "model.fit({'a': make(x, len(x))}['a'])\n"),
            5,
        ),
    ],
    "input/shuffle-fill": [
        (POOL + STEP + f"d = {DATA}pool).shuffle(50000).batch(64)\nfor e in range(9):\n    for x in d.take(20):\n"
         "        step(x)\n", 11),
    ],
    "input/uncached-input": [
        (("base = keras.Sequential([keras.layers.Conv2D(8, 3)])\nx = np.zeros((300, 24, 24, 3), 'float32')\n"
         f"d = {DATA}x).batch(8).map(lambda v: base(v, training=False))\nhead.fit(d.prefetch(2), epochs=4)\n"), 3),
    ],
    "input/python-input": [
        (STEP + BOARDS % ("    def encode(self, text):\n        out = np.zeros(64)\n"
         "        for k, c in enumerate(text):\n"
                          "            out[k] = ord(c)\n        return out\n"), 17),
        (STEP + DRAWS % (REJECTED % 5), 18),
    ],
    "input/starved-host": [
        (("import dataclasses\n@dataclasses.dataclass\nclass Pipe:\n    pool: int = 1\n"
         "@dataclasses.dataclass\nclass Job:\n    pipe: Pipe = dataclasses.field(default_factory=Pipe)\n"
         "class Data:\n    def __init__(self, cfg):\n        self.cfg = cfg\n    def options(self):\n"
         "        o = tf.data.Options()\n        o.threading.private_threadpool_size = self.cfg.pool\n"
                "        return o\n"
         "    def make(self):\n        return tf.data.TextLineDataset('a').batch(8).map(tf.strings.lower, 4)"
         ".with_options(self.options())\ncfg = Job()\nmodel.fit(Data(cfg.pipe).make())\n"), 13),
    ],
    "transfer/per-step-readback": [
        (STEP + "class Book:\n    def add(self, ids, losses):\n        for k, i in enumerate(ids):\n"
         "            self.of[i] = float(losses[k])\nbook = Book()\n" + LOOP + DRAWN +
         "    ids = np.arange(64)\n    loss, each = step(x)\n    book.add(ids, each)\n", 13),
        (STEP + "def drift(v):\n    return np.abs(v.numpy() - 1.0).mean()\n" + LOOP + DRAWN + "    step(x)\n"
         "    log.append(drift(w))\n", 11),
        (STEP + "[log.write(v.numpy()) for x in read() for v in step(x)[1]]\n", 10),
    ],
    "transfer/per-step-feed": [
        (STEP + "rows = np.zeros((900, 400)).tolist()\ndef batch(n):\n    out = []\n    for _ in range(n):\n"
         "        k = pick()\n        out.append(rows[k][5:205])\n    return out\n" + LOOP
         + "    step(tf.convert_to_tensor(batch(64)))\n", 18),
        (STEP + "cols = {str(i): np.random.rand(900) for i in range(40)}\nnames = [str(i) for i in range(40)]\n" + LOOP
         + "    at = np.random.randint(0, 900, 64)\n"
         "    step(tf.stack([tf.constant(cols[k][at]) for k in names], 1))\n", 14),
    ],
    "memory/host-leak": [
        (STEP + "class Run:\n    def __init__(self):\n        self.a, self.b = [], []\n    def go(self):\n"
         "        for x in read():\n            loss, each = step(x)\n            self.a.append(net(x))\n"
         "        print(self.a[-1])\nnet = keras.layers.Dense(3)\nRun().go()\n", 16),
        (STEP + "seen = []\nnet = keras.layers.Dense(3)\ndef keep(v):\n    seen.append(v)\nfor x in read():\n"
         "    step(x)\n"
         "    keep(net(x))\n", 13),
    ],
    "machine/limited-host": [
        (("import os\ndef bind(n):\n    mine = sorted(os.sched_getaffinity(0))\n    os.sched_setaffinity(0, mine[:n])\n"
         "bind(1)\nmodel.fit(x)\n"), 4),
    ],
}  # fmt: skip
QUIET: dict[str, list[str]] = {
    "input/oversized-shuffle": [
        ("def floats(p):\n    return tf.cast(p, tf.float32) / 255.0\ndef make(p, n):\n"
        f"    return {DATA}p).shuffle(n).map(floats, 4).batch(8)\n"
        "x = np.zeros((9000, 256, 256, 3), 'uint8')\nmodel.fit({'a': make(x, len(x))}['a'])\n"),
    ],
    "host/elementwise-preprocessing": [
        ("for i in range(9000):\n    text = draw(i)\n    text = np.concatenate([text, more])\n    said.append(text)\n"
         "model.fit(said)\n"),
    ],
    "input/per-element-map": [
        CSV + "        return {'train': ds.batch(8).map(self.parse, 4)}\nmodel.fit(Run().data()['train'])\n",
    ],
    "input/sequential-map": [
        LOAD + FILES + f"def make(n):\n    return {DATA}files).map(load, num_parallel_calls=n).batch(8)\n"
        f"model.fit(make(4))\n",
    ],
    "input/unprefetched-input": [
        LOAD + FILES + f"def make():\n    return {{'a': {DATA}files).map(load, 4).batch(8).prefetch(1)}}\n"
        "model.fit(make()['a'])\n",
    ],
    "input/shuffle-fill": [
        POOL + STEP + f"d = {DATA}pool).shuffle(50000).batch(64)\nfor e in range(9):\n    for x in d:\n"
        f"        step(x)\n",
    ],
    "input/uncached-input": [
        LOAD + FILES + f"def make(part):\n    d = {DATA}part).map(lambda f: tf.image.random_flip_up_down(load(f)), 4)\n"
        "    return d.batch(8)\nmodel.fit(make(files), epochs=9)\n",
        ("base = keras.Sequential([keras.layers.RandomFlip()])\nx = np.zeros((300, 24, 24, 3), 'float32')\n"
        f"d = {DATA}x).batch(8).map(lambda v: base(v, training=True))\nhead.fit(d.prefetch(2), epochs=4)\n"),
    ],
    "input/python-input": [
        STEP + DRAWS.replace("range(256)", "range(4)") % (REJECTED % 5),
        STEP + DRAWS % "        while not others:\n            others.append(self.wait())\n",
    ],
    "transfer/per-step-readback": [
        STEP + LOOP + DRAWN + "    loss, each = step(x)\n    each = each.numpy()\n    for k in range(64):\n"
        "        book[k] = float(each[k])\n",
        STEP + "for e in range(9):\n    kept = [step(x)[0] for x in read()]\n"
        "    print(np.mean([v.numpy() for v in kept]))\n",
        STEP + "bias = tf.Variable(tf.zeros(9))\n" + LOOP + DRAWN + "    step(x)\n    log.append(bias.numpy())\n",
    ],
    "transfer/per-step-feed": [
        STEP + "big = np.ones((900, 400), 'float32')\n" + LOOP + "    big[i] = read(i)\n    step(big)\n",
        STEP + LOOP + "    step(tf.stack([tf.constant(v) for v in (np.zeros(9), np.ones(9))], 1))\n",
    ],
    "memory/host-leak": [
        STEP + "seen = []\nnet = keras.layers.Dense(3)\nfor x in read():\n    step(x)\n    seen.append(net(x))\n"
        "np.save('all.npy', np.concatenate(seen))\n",
        STEP + "net = keras.layers.Dense(3)\nfor e in range(9):\n    seen = []\n    for x in read():\n        step(x)\n"
        "        seen.append(net(x))\n    print(seen[-1])\n",
    ],
    "machine/limited-host": [
        ("import os\ndef bind(n):\n    mine = sorted(os.sched_getaffinity(0))\n    os.sched_setaffinity(0, mine[:n])\n"
        "bind(4)\nmodel.fit(x)\n"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("cause", "text", "line"), [(c, *one) for c, every in FOUND.items() for one in every])
def test_found(cause: str, text: str, line: int) -> None:
    assert line in spotted.lines(cause, text)


@pytest.mark.parametrize(("cause", "text"), [(c, one) for c, every in QUIET.items() for one in every])
def test_left_alone(cause: str, text: str) -> None:
    assert spotted.lines(cause, text) == []
