"""Causes of computing, the machine and numerics in source text: found however they are written, silent beside them."""

from __future__ import annotations

import pytest

from . import spotted

FAMILIES = ("compute", "machine", "numerics")
# Whose cause no text tells: a data set's own threads and a step's size, values that run away, a rate that is too high.
UNSEEN = {"leaf_scans", "clickthrough", "salary_units", "pump_forecast", "texture_filters"}
SCRIPTS = [s for s in spotted.scripts(FAMILIES) if s.name not in UNSEEN]
FIT = "model.fit(x, y)\n"
DATA = "x, y = np.random.rand(5000, 20), np.random.rand(5000)\n"
TABLE = "table = tf.Variable(tf.random.normal((50_000, 16)))\n"
LAYER = """
class Own(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=({0}, 16))
    def call(self, ids):
        {1}
"""

FOUND = {
    "compute/small-batch": [
        (DATA + "model.fit(x, y, batch_size=1, epochs=3)\n", 2),
        (DATA + "N = 2\nmodel.fit(x, y, batch_size=N)\n", 2),
        ("(x, y), _ = keras.datasets.mnist.load_data()\nx = x / 255.0\nmodel.fit(x, y, batch_size=4)\n", 3),
        (DATA + "ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(9).batch(2)\nmodel.fit(ds)\n", 2),
        (DATA + "for i in range(0, 5000, 8):\n    model.train_on_batch(x[i:i + 8], y[i:i + 8])\n", 2),
        ("x = np.zeros((1, 4000, 3))\nm = keras.Sequential([layers.GRU(8)])\nm.fit(x, x, batch_size=1)\n", 3),
    ],
    "compute/double-precision": [
        ("keras.backend.set_floatx('float64')\n" + FIT, 1),
        ("tf.keras.backend.set_floatx('float64')\n" + FIT, 1),
        ("from keras.config import set_floatx\nset_floatx('float64')\n" + FIT, 2),
        ("w = tf.Variable(np.random.rand(30, 40))\nwith tf.GradientTape() as t:\n    y = x @ w\n", 1),
        ("r = np.random.default_rng(1)\nw = tf.Variable(r.normal(size=(a, 9)))\nt = tf.GradientTape()\n", 2),
    ],
    "compute/unfused-rnn": [
        ("m = keras.Sequential([layers.LSTM(8, recurrent_dropout=0.2)])\nm.fit(x, y)\n", 1),
        ("h = tf.keras.layers.GRU(8, reset_after=False)(x)\n" + FIT, 1),
        ("h = layers.LSTM(\n    8,\n    activation='relu',\n)\n" + FIT, 3),
    ],
    "compute/handwritten-op": [
        (LAYER.format(9000, "return tf.matmul(tf.one_hot(ids, 9000), self.table)"), 5),
        (LAYER.format("N", "rows = tf.one_hot(ids, N)\n        return rows @ self.table") + "N = 4000\n", 5),
        ("V = 5000\nw = tf.Variable(tf.random.normal((V, 8)))\ny = tf.tensordot(tf.one_hot(i, V), w, 1)\n", 3),
    ],
    "compute/dense-embedding-update": [
        (
            ("e = layers.Embedding(500_000, 32)(i)\nm = keras.Model(i, layers.Dense(1)(e))\n"
            "m.compile('adam', 'mse')\nm.fit(x, y)\n"),
            1,
        ),
        (
            ("N, D = 300_000, 64\nm = keras.Sequential([\n    layers.Embedding(input_dim=N, output_dim=D),\n"
            "    layers.Flatten(),\n    layers.Dense(1),\n])\nm.compile(keras.optimizers.Adam(), 'mse')\n"
            "m.fit(x, y)\n"),
            3,
        ),
        (TABLE + "unit = tf.nn.l2_normalize(table, axis=1)\na = tf.gather(unit, i)\nb = tf.gather(unit, j)\n", 2),
        (TABLE + "a = tf.gather(tf.tanh(table), i)\n", 2),
    ],
    "machine/limited-host": [
        ("tf.config.threading.set_intra_op_parallelism_threads(1)\n" + FIT, 1),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\n" + FIT, 2),
        ("import os\nos.sched_setaffinity(0, {0})\n" + FIT, 2),
        ("c = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)\n" + FIT, 1),
    ],
    "numerics/nonfinite-loss": [
        (
            ("m = keras.Sequential([layers.Dense(9), layers.Softmax()])\n"
            "m.compile('adam', keras.losses.CategoricalCrossentropy(from_logits=True))\n"),
            2,
        ),
        (
            ("m = keras.Sequential([layers.Dense(1), layers.Activation('sigmoid')])\n"
            "m.compile('adam', keras.losses.BinaryCrossentropy(from_logits=True))\n"),
            2,
        ),
        ("p = tf.sigmoid(z)\nloss = -y * tf.math.log(p)\n", 2),
        ("def loss(y, z):\n    p = tf.nn.softmax(z)\n    return -tf.math.log(1 - p[:, 0])\n", 3),
        ("loss = keras.ops.log(keras.ops.softmax(z))\n", 1),
        ("m = keras.Sequential([layers.Dense(1)])\nm.compile('adam', 'binary_crossentropy')\n", 2),
        ("loss = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=tf.nn.softmax(z))\n", 1),
        ("z = tf.cast(x, tf.float16) + 1e-8\n", 1),
        ("s = tf.math.reduce_std(x, axis=1, keepdims=True)\nx = (x - tf.reduce_mean(x)) / s\n" + FIT, 2),
        ("m, v = tf.nn.moments(x, axes=[1])\nx = (x - m) / tf.sqrt(v)\n" + FIT, 2),
        (("def own(t, p):\n    return -tf.reduce_sum(t * tf.math.log(p))\n"
         "m = keras.Sequential([layers.Dense(9, activation='softmax')])\nm.compile('adam', own)\n"), 2),
        ("m = keras.Sequential([layers.Dense(1, activation='relu')])\nloss = tf.math.log(m(x)[:, 0])\n", 2),
        ("m = keras.Sequential([layers.Dense(9), layers.Softmax()])\nloss = tf.math.log(m(x)[:, 0])\n", 2),
    ],
}  # fmt: skip

QUIET = {
    "compute/small-batch": [
        DATA + "model.fit(x, y, batch_size=32)\n",
        DATA + "model.fit(x, y, batch_size=SIZE)\n",
        "x = np.random.rand(16, 3)\nmodel.fit(x, x, batch_size=2)\n",
        "x = np.load('x.npy')\nmodel.fit(x, x, batch_size=1)\n",
        "x = np.zeros((900, 256, 256, 3))\nm = keras.Sequential([layers.Conv2D(8, 3)])\nm.fit(x, x, batch_size=2)\n",
        DATA + "model.predict(x, batch_size=1)\nmodel.fit(x, y)\n",
    ],
    "compute/double-precision": [
        "keras.backend.set_floatx('float32')\n" + FIT,
        "keras.backend.set_floatx('float64')\n",
        "old = keras.backend.floatx()\nkeras.backend.set_floatx('float64')\nkeras.backend.set_floatx(old)\n" + FIT,
        "w = tf.Variable(np.random.rand(30, 40).astype('float32'))\nt = tf.GradientTape()\n",
        "w = tf.Variable(np.random.rand(30, 40), dtype=tf.float32)\nt = tf.GradientTape()\n",
        "w = tf.Variable(np.zeros(9))\nt = tf.GradientTape()\n",
    ],
    "compute/unfused-rnn": [
        "m = keras.Sequential([layers.LSTM(8, dropout=0.2, activation='tanh')])\nm.fit(x, y)\n",
        "m = keras.Sequential([layers.LSTM(8, recurrent_dropout=rate)])\nm.fit(x, y)\n",
        "layer = layers.LSTM(8, unroll=True)\n",
        "from own import LSTM\nm = LSTM(8, unroll=True)\n" + FIT,
    ],
    "compute/handwritten-op": [
        LAYER.format(9, "return tf.matmul(tf.one_hot(ids, 9), self.table)"),
        LAYER.format(9000, "return tf.gather(self.table, ids)"),
        "y = tf.one_hot(labels, 5000)\nloss = tf.nn.softmax_cross_entropy_with_logits(y, z)\n",
        LAYER.format("n", "return tf.matmul(tf.one_hot(ids, n), self.table)"),
    ],
    "compute/dense-embedding-update": [
        "e = layers.Embedding(5000, 32)(i)\nm = keras.Model(i, e)\nm.compile('adam', 'mse')\nm.fit(x, y)\n",
        "e = layers.Embedding(500_000, 32)(i)\nm = keras.Model(i, e)\nm.compile('sgd', 'mse')\nm.fit(x, y)\n",
        (
            "e = layers.Embedding(500_000, 32)(i)\ne = layers.LSTM(64)(e)\nm = keras.Model(i, e)\n"
            "m.compile('adam', 'mse')\nm.fit(x, y)\n"
        ),
        (
            "e = layers.Embedding(500_000, 32)(i)\nm = keras.Model(i, layers.Dense(500_000)(e))\n"
            "m.compile('adam', 'mse')\nm.fit(x, y)\n"
        ),
        TABLE + "unit = tf.nn.l2_normalize(table, axis=1)\nscores = unit @ v\n",
        TABLE + "a = tf.tanh(tf.gather(table, i))\n",
    ],
    "machine/limited-host": [
        "tf.config.threading.set_intra_op_parallelism_threads(0)\n" + FIT,
        "tf.config.threading.set_intra_op_parallelism_threads(n)\n" + FIT,
        "tf.config.threading.set_intra_op_parallelism_threads(1)\n",
        "tf.config.threading.set_inter_op_parallelism_threads(1)\n" + FIT,
        "import os\nos.environ['OMP_NUM_THREADS'] = '16'\n" + FIT,
        "import os\ndef pin(core):\n    os.sched_setaffinity(0, {core})\n" + FIT,
    ],
    "numerics/nonfinite-loss": [
        "p = tf.sigmoid(z)\nloss = -y * tf.math.log(p + 1e-7)\n",
        "p = tf.clip_by_value(tf.sigmoid(z), 1e-7, 1 - 1e-7)\nloss = -y * tf.math.log(p)\n",
        "x = tf.math.log(counts)\n",
        "s = tf.math.reduce_std(x, axis=1, keepdims=True)\nx = x / (s + 1e-6)\n" + FIT,
        "x = x / tf.math.reduce_std(x)\n" + FIT,
        "x = (x - x.mean(0)) / x.std(0)\n" + FIT,
        "m = keras.Sequential([layers.Dense(1, activation='softplus')])\nloss = tf.math.log(m(x)[:, 0])\n",
        (
            "def own(t, p):\n    return -tf.reduce_sum(t * tf.math.log(p))\n"
            "m = keras.Sequential([layers.Dense(9)])\nm.compile('adam', own)\n"
        ),
        "m = keras.Sequential([layers.Dense(1, activation='sigmoid')])\nm.compile('adam', 'binary_crossentropy')\n",
        (
            "m = keras.Sequential([layers.Dense(1)])\n"
            "m.compile('adam', keras.losses.BinaryCrossentropy(from_logits=True))\n"
        ),
        "m = keras.Sequential([layers.Dense(1)])\nm.compile('adam', 'mse')\n",
        "z = tf.cast(x, tf.float32) + 1e-8\n",
        "loss = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=z)\n",
    ],
}


@pytest.mark.parametrize(("cause", "text", "line"), [(c, t, n) for c, rows in FOUND.items() for t, n in rows])
def test_found(cause: str, text: str, line: int) -> None:
    assert spotted.lines(cause, text) == [line]


@pytest.mark.parametrize(("cause", "text"), [(c, t) for c, rows in QUIET.items() for t in rows])
def test_near_misses(cause: str, text: str) -> None:
    assert spotted.lines(cause, text) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.name)
def test_slow_scripts(script: spotted.Script) -> None:
    found = spotted.seen(script.slow, script.causes)
    assert found
    assert not script.lines or {one.line for one in found} & set(script.lines)
    for one in found:
        assert one.cured is None or one.cause not in {again.cause for again in spotted.seen(one.cured, [one.cause])}
