"""Causes of computing, the machine and numerics in source text: found however they are written, silent beside them."""

from __future__ import annotations

import pytest

from . import spotted

FAMILIES = ("compute", "machine", "numerics")
# Whose cause no text tells: a data set's own threads and a step's size, values that run away, a rate that is too high.
UNSEEN = {"leaf_scans", "clickthrough", "salary_units", "pump_forecast", "texture_filters", "cork_grades",
          "glaze_firings", "lantern_moths", "bassoon_reeds", "ferry_hulls", "kite_lifts",
          "saffron_threads"}  # fmt: skip
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
        (DATA + "ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(9).batch(2)\nmodel.fit(ds)\n", 2),
        (DATA + "for i in range(0, 5000, 8):\n    model.train_on_batch(x[i:i + 8], y[i:i + 8])\n", 2),
        ("x = np.zeros((1, 4000, 3))\nm = keras.Sequential([layers.GRU(8)])\nm.fit(x, x, batch_size=1)\n", 3),
    ],
    "compute/double-precision": [
        ("keras.backend.set_floatx('float64')\n" + FIT, 1),
    ],
    "compute/unfused-rnn": [
        ("h = tf.keras.layers.GRU(8, reset_after=False)(x)\n" + FIT, 1),
        ("h = layers.LSTM(\n    8,\n    activation='relu',\n)\n" + FIT, 3),
    ],
    "compute/handwritten-op": [
        (LAYER.format(9000, "return tf.matmul(tf.one_hot(ids, 9000), self.table)"), 5),
    ],
    "compute/dense-embedding-update": [
        (TABLE + "unit = tf.nn.l2_normalize(table, axis=1)\na = tf.gather(unit, i)\nb = tf.gather(unit, j)\n", 2),
    ],
    "machine/limited-host": [
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
        ("def loss(y, z):\n    p = tf.nn.softmax(z)\n    return -tf.math.log(1 - p[:, 0])\n", 3),
        ("loss = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=tf.nn.softmax(z))\n", 1),
        ("s = tf.math.reduce_std(x, axis=1, keepdims=True)\nx = (x - tf.reduce_mean(x)) / s\n" + FIT, 2),
        ("m, v = tf.nn.moments(x, axes=[1])\nx = (x - m) / tf.sqrt(v)\n" + FIT, 2),
        (("def own(t, p):\n    return -tf.reduce_sum(t * tf.math.log(p))\n"
         "m = keras.Sequential([layers.Dense(9, activation='softmax')])\nm.compile('adam', own)\n"), 2),
    ],
}  # fmt: skip

QUIET = {
    "compute/small-batch": [
        DATA + "model.fit(x, y, batch_size=SIZE)\n",
        "x = np.random.rand(16, 3)\nmodel.fit(x, x, batch_size=2)\n",
        "x = np.load('x.npy')\nmodel.fit(x, x, batch_size=1)\n",
        "x = np.zeros((900, 256, 256, 3))\nm = keras.Sequential([layers.Conv2D(8, 3)])\nm.fit(x, x, batch_size=2)\n",
    ],
    "compute/double-precision": [
        "keras.backend.set_floatx('float64')\n",
        "w = tf.Variable(np.zeros(9))\nt = tf.GradientTape()\n",
    ],
    "compute/unfused-rnn": ["from own import LSTM\nm = LSTM(8, unroll=True)\n" + FIT],
    "compute/handwritten-op": [
        LAYER.format(9, "return tf.matmul(tf.one_hot(ids, 9), self.table)"),
        "y = tf.one_hot(labels, 5000)\nloss = tf.nn.softmax_cross_entropy_with_logits(y, z)\n",
        LAYER.format("n", "return tf.matmul(tf.one_hot(ids, n), self.table)"),
    ],
    "compute/dense-embedding-update": [
        "e = layers.Embedding(500_000, 32)(i)\nm = keras.Model(i, e)\nm.compile('sgd', 'mse')\nm.fit(x, y)\n",
        (
            "e = layers.Embedding(500_000, 32)(i)\ne = layers.LSTM(64)(e)\nm = keras.Model(i, e)\n"
            "m.compile('adam', 'mse')\nm.fit(x, y)\n"
        ),
        (
            "e = layers.Embedding(500_000, 32)(i)\nm = keras.Model(i, layers.Dense(500_000)(e))\n"
            "m.compile('adam', 'mse')\nm.fit(x, y)\n"
        ),
    ],
    "machine/limited-host": [
        "tf.config.threading.set_intra_op_parallelism_threads(1)\n",
        "import os\ndef pin(core):\n    os.sched_setaffinity(0, {core})\n" + FIT,
    ],
    "numerics/nonfinite-loss": [
        "x = x / tf.math.reduce_std(x)\n" + FIT,
        "m = keras.Sequential([layers.Dense(1, activation='softplus')])\nloss = tf.math.log(m(x)[:, 0])\n",
        (
            "def own(t, p):\n    return -tf.reduce_sum(t * tf.math.log(p))\n"
            "m = keras.Sequential([layers.Dense(9)])\nm.compile('adam', own)\n"
        ),
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
