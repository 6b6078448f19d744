"""The same mistakes in other clothes: handed over otherwise, in a method, a comprehension, a dictionary, a setting."""

from __future__ import annotations

import pytest

from . import spotted

STEP = """
@tf.function
def step(x, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x)) * rate
    opt.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))
    return loss

"""
HELD = STEP.replace("rate):", "batch):").replace("* rate", "* batch['rate']").replace("step(x, ", "step(")
SCORE = "def score(s):\n    return net.predict(s[None], verbose=0)[0]\n\n"
BOOK = """
class Book:
    def __init__(self, net):
        self.net, self.rows = net, []
    def entry(self, when, logs=None):
        {0}
book = Book(net)
"""
LAMBDA = "cb = keras.callbacks.LambdaCallback({0})\n"
FRAME = """
def frame(events):
    out = np.zeros((32, 32))
    for e in events:
        {0}
    return out

every = np.random.rand(300, 5000, 2)
"""
TIDY = "import contextlib\nimport gc\n@contextlib.contextmanager\ndef tidy():\n"
TRAIN = "    model.train_on_batch(x, x)\n"
LONG = "x, y = np.zeros((640, 96, 2)), np.zeros(640)\nm = keras.Sequential()\nm.add(keras.Input((96, 2)))\n"
FIT = "m.compile('adam', 'mse')\nm.fit(x, y, batch_size=64, epochs=3)\n"
TOWER = "e = layers.Embedding(300_000, 32)(i)\nm = keras.Model(i, layers.Dense(1)(e))\n"
TAGS = "e = layers.Embedding(300_000, 32, {0})(i)\nm = keras.Model(i, layers.Dense(1)(e))\n"
SGD = "m.compile(keras.optimizers.SGD(0.1), 'mse')\nm.fit(x, y)\n"
DRAW = "rng = np.random.default_rng(1)\n"
MINED = """
class Loss:
    def __init__(self, batch):
        self.batch = batch
    def __call__(self, z):
        far = []
        for a in range(self.batch):
            {0}
        return tf.reduce_mean(tf.stack(far))

loss = Loss(60)
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        value = loss(model(x))
    return tape.gradient(value, model.weights)
"""
BANK = """
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.bank = tf.Variable(tf.zeros((0, 9)), shape=(None, 9))
    def push(self, z):
        {0}
    def train_step(self, data):
        with tf.GradientTape() as tape:
            z = self(data)
        self.push(z)
        return tape.gradient(z, self.weights)
Net().fit(x)
"""
KEEP = """
class Report:
    def __init__(self):
        self.parts = {0}
    def add(self, z):
        self.parts.append(z)
    def line(self):
        return {1}
report = Report()
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        z = net(x) - x
        loss = tf.reduce_mean(tf.square(z))
    opt.apply_gradients(zip(tape.gradient(loss, v), v))
    return loss, z
for x in ds:
    loss, z = step(x)
"""

FOUND = {
    "host/retracing": [
        (STEP + DRAW + "for x in ds:\n    step(x, rng.uniform(0.5, 1.5))\n", 10),
        (STEP + "import random\nfor x in ds:\n    step(x, random.random())\n", 10),
        (HELD + "for k, batch in enumerate(ds):\n    batch.update(rate=k / 500)\n    step(batch)\n", 9),
    ],
    "host/predict-in-loop": [
        (SCORE + "best = max(many, key=score)\n", 2),
        (SCORE + "best = sorted(many, key=lambda s: -score(s))\n", 2),
        (SCORE + "all_ = list(map(score, many))\n", 2),
        (SCORE + "many.sort(key=score)\n", 2),
        (SCORE + "found = np.apply_along_axis(score, 1, many)\n", 2),
        (SCORE + "found = table.apply(score, axis=1)\n", 2),
        (SCORE + "import heapq\nfound = heapq.nlargest(9, many, key=score)\n", 2),
    ],
    "host/heavy-callback": [
        (BOOK.format("np.save('a.npy', self.rows)") + LAMBDA.format("on_batch_end=lambda b, l: book.entry(b)"), 7),
        ("def note(batch, logs=None):\n    np.linalg.svd(w)\n" + LAMBDA.format("on_train_batch_begin=note"), 3),
        (("import functools\ndef note(to, batch, logs=None):\n    model.save(to)\n"
          + LAMBDA.format("on_train_batch_end=functools.partial(note, 'a.keras')")), 4),
        (BOOK.format("for v in self.net.layers:\n            if isinstance(v, layers.Dense) and v.units > 1:\n"
                     "                np.histogram(v.kernel)") + LAMBDA.format("on_train_batch_end=book.entry"), 9),
    ],
    "host/elementwise-preprocessing": [
        (FRAME.format("out[int(e[0] * 32), int(e[1] * 32)] += 1.0")
         + "x = np.stack([frame(e) for e in every])\nmodel.fit(x, y)\n", 3),
        (FRAME.format("a, b = int(e[0] * 32), min(int(e[1] * 32), 31)\n        out[a, b] = max(e[0], 0.5)")
         + "x = []\nfor e in every:\n    x.append(frame(e))\nmodel.fit(np.array(x), y)\n", 3),
    ],
    "host/frequent-validation": [
        (("x = np.zeros((4096, 3))\nfeed = tf.data.Dataset.from_tensor_slices(x)\n"
          "feed = feed.repeat().batch(8).take(1000).prefetch(2)\n"
          "test = tf.data.Dataset.from_tensor_slices(x).batch(32)\nfor n, a in enumerate(feed):\n"
          "    model.train_on_batch(a, a)\n    if n % 10 == 0:\n        for v in test:\n            score(v)\n"), 7),
    ],
    "host/garbage-collection": [
        (TIDY + "    yield\n    gc.collect()\nfor x in ds:\n    with tidy():\n    " + TRAIN, 6),
        (TIDY + "    try:\n        yield\n    finally:\n        gc.collect()\n"
         "for x in ds:\n    with tidy():\n    " + TRAIN, 8),
        ("import gc\nfor x in ds:\n    try:\n    " + TRAIN + "    finally:\n        gc.collect()\n", 6),
        (("import gc\ndef tidy(f):\n    def inner(x):\n        out = f(x)\n        gc.collect()\n        return out\n"
          "    return inner\n@tidy\ndef one(x):\n    model.train_on_batch(x, x)\nfor x in ds:\n    one(x)\n"), 5),
        ("import gc\n" + LAMBDA.format("on_train_batch_end=lambda b, l: gc.collect()"), 2),
        ("import gc\ndef tidy(batch, logs):\n    gc.collect()\n" + LAMBDA.format("on_batch_end=tidy"), 3),
    ],
    "startup/slow-startup": [
        (LONG + "more = {'unroll': True}\nm.add(layers.GRU(8, **more))\n" + FIT, 4),
        (LONG + "more = dict(unroll=True)\nm.add(getattr(layers, 'GRU')(8, **more))\n" + FIT, 4),
        (LONG + "import functools\ncell = functools.partial(layers.GRU, unroll=True)\nm.add(cell(8))\n" + FIT, 5),
        (LONG + "WRITTEN = True\nm.add(tf.keras.layers.SimpleRNN(8, unroll=WRITTEN))\n" + FIT, 5),
    ],
    "compute/dense-embedding-update": [
        (TOWER + "m.compile(keras.optimizers.get({'class_name': 'Adam', 'config': {}}), 'mse')\nm.fit(x, y)\n", 1),
        (TOWER + "def opt(name):\n    return keras.optimizers.get(name)\n"
         "m.compile(opt('adam'), 'mse')\nm.fit(x, y)\n", 1),
        (TOWER + "make = getattr(keras.optimizers, 'Adamax')(0.1)\nm.compile(make, 'mse')\nm.fit(x, y)\n", 1),
        (TAGS.format("embeddings_regularizer='l2'") + SGD, 1),
        (TAGS.format("embeddings_regularizer=keras.regularizers.l2(1e-6)") + SGD, 1),
        (("class Own(keras.Model):\n    def __init__(self):\n        super().__init__()\n"
          "        self.table = layers.Embedding(300_000, 32)\n    def call(self, ids):\n"
          "        self.add_loss(1e-6 * tf.nn.l2_loss(self.table.embeddings))\n        return self.table(ids)\n"
          "Own().fit(x, y)\n"), 6),
        (("e = layers.Embedding(300_000, 32)\n@tf.function\ndef step(x):\n    with tf.GradientTape() as tape:\n"
          "        loss = tf.add_n([tf.nn.l2_loss(v) for v in model.trainable_variables])\n"
          "    opt.apply_gradients(tape.gradient(loss, w))\n"), 5),
    ],
    "compute/double-precision": [
        (DRAW + "w = tf.Variable(tf.constant(rng.normal(size=(30, 40))))\nt = tf.GradientTape()\n", 2),
    ],
    "compute/handwritten-op": [
    ],
    "drift/growing-step": [
        (BANK.format("more = tf.concat((self.bank, z), 0)\n        self.bank.assign(more)"), 7),
        (BANK.format("self.bank.assign(np.concatenate([self.bank.numpy(), z]))"), 6),
        (("class Watch(keras.callbacks.Callback):\n    def __init__(self):\n        self.seen = np.zeros((0, 4))\n"
          "    def on_train_batch_end(self, batch, logs=None):\n"
          "        self.seen = np.concatenate([self.seen, self.model(x)])\nmodel.fit(x, callbacks=[Watch()])\n"), 5),
    ],
    "memory/host-leak": [
        (KEEP.format("list()", "self.parts[-9:]") + "    report.add(z.numpy())\n", 5),
        (KEEP.format("[]", "self.parts[-1]") + "    report.add((x, z))\n", 5),
    ],
}  # fmt: skip

QUIET = {
    "host/retracing": [
        STEP + "for k in range(500):\n    step(x, k % 2)\n",
        STEP + "import random\nfor x in ds:\n    step(x, random.randint(0, 3))\n",
        STEP + DRAW + "for row in rng.integers(0, n, size).tolist():\n    step(x, row)\n",
        (
            "class Net:\n    @tf.function\n    def update(self, batch, rate=1.0): pass\nlogs = {}\n"
            "for k in range(500):\n    self.logs.update({'step': k})\n    logs.update(rate=0.1 * k)\n"
        ),
    ],
    "host/predict-in-loop": [
        SCORE + "best = max((a, b), key=score)\n",
        SCORE + "ds = ds.apply(score)\nds = ds.map(score, num_parallel_calls=4)\n",
        SCORE + "ds = tf.data.Dataset.range(9).map(score)\n",
    ],
    "host/heavy-callback": [
        BOOK.format("self.net.save_weights('a.h5')") + LAMBDA.format("on_epoch_end=book.entry"),
        BOOK.format("self.rows.append(logs['loss'])") + LAMBDA.format("on_train_batch_end=book.entry"),
        BOOK.format("self.save()\n    def save(self):\n        self.rows = []")
        + LAMBDA.format("on_train_batch_end=book.entry"),
        "def note(batch, logs=None):\n    if batch > 9:\n        np.linalg.svd(w)\n"
        + LAMBDA.format("on_batch_end=note"),
    ],
    "host/elementwise-preprocessing": [
        FRAME.format("out[int(e[0] * 32), int(e[1] * 32)] += 1.0").replace("5000", "50")
        + "x = np.stack([frame(e) for e in every])\nmodel.fit(x, y)\n",
        FRAME.format("out[int(e[0] * 32), int(e[1] * 32)] += out[0, 0]")
        + "x = np.stack([frame(e) for e in every])\nmodel.fit(x, y)\n",
        FRAME.format("out[int(e[0] * 32), int(e[1] * 32)] = look_up(e)")
        + "x = np.stack([frame(e) for e in every])\nmodel.fit(x, y)\n",
        FRAME.format("b = int(e[0] * 32)")
        .replace("    for e", "    b = 0\n    for e")
        .replace("b = int(", "out[b, int(e[1])] = b\n        b = int(")
        + "x = np.stack([frame(e) for e in every])\nmodel.fit(x, y)\n",
    ],
    "host/frequent-validation": [
        (
            "x = np.zeros((4096, 3))\nfeed = tf.data.Dataset.from_tensor_slices(x).take(1000).repeat().batch(8)\n"
            "test = tf.data.Dataset.from_tensor_slices(x).batch(32)\nfor n, a in enumerate(feed):\n"
            "    model.train_on_batch(a, a)\n    if n % 10 == 0:\n        for v in test:\n            score(v)\n"
        )
    ],
    "host/garbage-collection": [
        TIDY + "    yield\n    gc.collect()\nwith tidy():\n    for x in ds:\n    " + TRAIN,
        TIDY + "    yield\n    gc.collect()\nfor e in range(9):\n    with tidy():\n        load(e)\n",
        "import gc\n" + LAMBDA.format("on_epoch_end=lambda e, l: gc.collect()"),
        (
            "import gc\ndef tidy(f):\n    def inner(x):\n        out = f(x)\n        gc.collect()\n        return out\n"
            "    return inner\n@tidy\ndef whole(x):\n    for b in x:\n        model.train_on_batch(b, b)\nwhole(x)\n"
        ),
    ],
    "startup/slow-startup": [
        LONG.replace("96", "24") + "m.add(layers.LSTM(8, unroll=True))\n" + FIT,
        LONG + "m.add(layers.LSTM(8, unroll=True))\n" + FIT.replace("epochs=3", "epochs=300"),
        LONG + "m.add(layers.LSTM(8, unroll=True))\n" + FIT.replace("epochs=3", "epochs=EPOCHS"),
        LONG + "more = dict(unroll=True)\nmore.update(unroll=False)\nm.add(layers.GRU(8, **more))\n" + FIT,
        LONG + "from own import LSTM\nm.add(LSTM(8, unroll=True))\n" + FIT,
    ],
    "compute/dense-embedding-update": [
        TAGS.format("embeddings_regularizer=None") + SGD,
        TAGS.format("embeddings_regularizer=keras.regularizers.L2(0.0)") + SGD,
        TAGS.format("embeddings_regularizer='l2'") + "m = keras.Model(i, layers.LSTM(9)(e))\n" + SGD,
        (
            "class Own(keras.Model):\n    def __init__(self):\n        super().__init__()\n"
            "        self.table = layers.Embedding(300_000, 32)\n    def call(self, ids):\n"
            "        self.add_loss(tf.nn.l2_loss(tf.gather(self.table.embeddings, ids)))\n"
            "        return self.table(ids)\n"
            "Own().fit(x, y)\n"
        ),
    ],
    "compute/double-precision": [
        DRAW + "w = tf.Variable(tf.constant(rng.normal(size=(30, 40)), tf.float32))\nt = tf.GradientTape()\n"
    ],
    "compute/handwritten-op": [
        MINED.format("far.append(tf.reduce_max(z[a] * far[-1]))"),
        MINED.format("far.append(self.heads[a](z))"),
        MINED.format("z = tf.nn.relu(z - z[a])\n            far.append(z)"),
        MINED.format("far.append(tf.reduce_max(z[a]) * a)"),
    ],
    "drift/growing-step": [
        BANK.format("self.bank.assign(tf.concat([self.bank[9:], z], axis=0))"),
        BANK.format("if self.wanted:\n            self.bank.assign(tf.concat([self.bank, z], axis=0))"),
        BANK.format("self.bank.assign(tf.concat([self.bank, z], axis=0))\n        self.bank.assign(self.bank[-9:])"),
        BANK.format("self.bank.assign(tf.concat([self.bank, z], axis=0))").replace("self.push(z)", "pass"),
    ],
    "memory/host-leak": [
        KEEP.format("[]", "self.parts[0]") + "    report.add(z)\n",
        KEEP.format("[]", "self.parts[-1]") + "    report.add(tf.reduce_mean(z))\n",
        KEEP.format("collections.deque(maxlen=9)", "self.parts[-1]") + "    report.add(z)\n",
    ],
}


@pytest.mark.parametrize(("cause", "text", "line"), [(c, t, n) for c, rows in FOUND.items() for t, n in rows])
def test_found(cause: str, text: str, line: int) -> None:
    assert spotted.lines(cause, text) == [line]


@pytest.mark.parametrize(("cause", "text"), [(c, t) for c, rows in QUIET.items() for t in rows])
def test_near_misses(cause: str, text: str) -> None:
    assert spotted.lines(cause, text) == []
