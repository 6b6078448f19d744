"""Causes of the host's families in source text: found however they are written, and silent beside them."""

from __future__ import annotations

import pytest

from . import spotted

FAMILIES = ("host", "startup", "drift")
# Whose cause no text tells: sizes of steps, what XLA compiles, which models are only kept or wanted anew each turn.
UNSEEN = {"clickthrough", "first_look_cnn", "weight_snapshots", "keras-2828", "texture_filters"}
UNSEEN |= {"concrete_strength"}  # host/short-epochs: how long an epoch takes beside what Keras does once in each
UNSEEN |= {
    "survey_log",
    "growing_dialogue",
    "tide_backup",
    "running_metrics",
    "replay_agent",
    "museum_plots",
    "finetune_birds",
}  # of drift: slow only after it has run for long
# How long the operations of a step take.
UNSEEN |= {"bassoon_reeds", "cork_grades", "glaze_firings", "kite_lifts", "saffron_threads"}
SCRIPTS = [s for s in spotted.scripts(FAMILIES) if s.name not in UNSEEN]

MODEL = "model = keras.Sequential([layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
REPLAY = """
class Agent:
    def build(self):
        {model}
    def replay(self):
        for s, t in random.sample(self.memory, 32):
            best = np.max(self.model.predict(s){read})
            self.model.fit(s, t, epochs=1)
"""
STEP = """
@tf.function
def step(x, y, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2) * rate
    opt.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))

"""
OWN = """
class Net(keras.Model):
    def train_step(self, x):
        with tf.GradientTape() as tape:
            loss = self(x)
        self.optimizer.minimize(loss, self.weights, tape=tape)
"""
HOOK = """
class Watch(keras.callbacks.Callback):
    def {0}(self, batch, logs=None):
        {1}
"""

FOUND = {
    "host/eager-step": [
        ("tf.config.run_functions_eagerly(True)", 1),
        (STEP.replace("@tf.function\n", "") + "for x, y in ds:\n    step(x, y, 1.0)\n", 1),
        (OWN + "model = Net()\nstep = model.train_step\nfor x in ds:\n    step(x)\n", 7),
    ],
    "host/retracing": [
        (
            STEP + "def batches():\n    for rows in data:\n        longest = max(map(len, rows))\n"
            "        yield tf.constant(np.zeros((8, longest))), rows\n\nfor x, y in batches():\n    step(x, y, 1.0)\n",
            13,
        ),
        ("class Rate:\n    def __call__(self, n):\n        return max(0.1, 0.9 * n)\n" + STEP
         + "rate = Rate()\nfor n in range(999):\n    step(x, y, rate(n))\n", 13),
        ("class Net:\n    @tf.function\n    def run(self, x): pass\nfor x in data:\n    n = Net()\n    n.run(x)\n", 6),
    ],
    "host/compile-in-loop": [
        (
            ("model.compile(keras.optimizers.SGD(0.1), 'mse')\nfor k in range(20):\n"
            "    model.compile(keras.optimizers.SGD(0.1 / k), 'mse')\n    model.fit(x, y)\n"),
            3,
        ),
        ("for x in data:\n    @tf.function\n    def g(v):\n        return v + 1\n    g(x)\n", 2),
        ("for x in data:\n    g = tf.function(lambda v: v + 1)\n    g(x)\n", 2),
        (
            ("def make():\n    @tf.function\n    def g(v):\n        return v + 1\n    return g\n\n"
            "for x in data:\n    g = make()\n    g(x)\n"),
            8,
        ),
    ],
    "host/predict-in-loop": [
        ("def adapt(x):\n    net.fit(x, x, batch_size=len(x), verbose=0)\n\nfor x in stream:\n    adapt(x)\n", 2),
        (MODEL + "for s in data:\n    a = model.predict(s[None])\n", 4),
        ("while not done:\n    a = model.predict(np.expand_dims(s, axis=0), verbose=0)\n", 2),
        ("def act(s):\n    return net.predict(s[np.newaxis, :], verbose=0)\n\nfor s in env:\n    act(s)\n", 2),
        ("out = [net.predict(x[i:i + 1], verbose=0) for i in range(len(x))]\n", 1),
        (REPLAY.format(model=MODEL.replace("\n", "\n        "), read="[0]"), 8),
        (REPLAY.format(model=MODEL.replace("\n", "\n        "), read="[0, :]"), 8),
    ],
    "host/heavy-callback": [
        (HOOK.format("on_train_batch_end", "self.model.save('x.keras')"), 2),
        (HOOK.format("on_train_batch_end", "self.keep()\n    def keep(self):\n        self.model.predict(x)"), 2),
        ("cb = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: model.save('x.keras'))", 1),
    ],
    "host/elementwise-preprocessing": [
        (
            ("N = 2000\nout = np.zeros((N, N))\nfor i in range(N):\n    for j in range(N):\n"
            "        out[i, j] = lookup(i).get(j, 0)\nmodel.fit(out, y)\n"),
            3,
        ),
    ],
    "host/miscounted-steps": [
        (("ds = tf.data.Dataset.from_tensor_slices(x).repeat().batch(32)\n"
         "model.fit(ds, steps_per_epoch=x.shape[0], epochs=3)\n"), 2),
        (("x = np.load('x.npy')\nn = len(x)\nds = tf.data.Dataset.from_tensor_slices(x).batch(SIZE).repeat()\n"
         "model.fit(ds, epochs=3, steps_per_epoch=n)\n"), 4),
    ],
    "host/frequent-validation": [
        ("x, v = np.zeros((100, 3)), np.zeros((5000, 3))\nmodel.fit(x, x, epochs=20, validation_data=(v, v))\n", 2),
        (
            ("x = np.zeros((4096, 3))\ntest = tf.data.Dataset.from_tensor_slices(x).batch(32)\n"
            "for step in range(1000):\n    model.train_on_batch(a, b)\n    if step % 10 == 0:\n"
            "        for v in test:\n            score(v)\n"),
            5,
        ),
    ],
    "host/garbage-collection": [
        ("import gc\n" + HOOK.format("on_train_batch_end", "gc.collect()").lstrip("\n"), 4),
        (("import gc\nclass Held:\n    def __enter__(self): pass\n    def __exit__(self, *e):\n        gc.collect()\n"
          "held = Held()\nfor x in ds:\n    with held:\n        model.train_on_batch(x, x)\n"), 5),
    ],
    "drift/growing-step": [
        ("b = tf.zeros((0, 4))\nfor x in ds:\n    model.train_on_batch(x, x)\n    b = tf.concat([b, x], 0)\n", 4),
    ],
    "startup/slow-startup": [
    ],
}  # fmt: skip

QUIET = {
    "drift/growing-step": [
        "out = np.zeros((0, 4))\nfor x in ds:\n    out = np.concatenate([out, model(x)])\nmodel.fit(out, out)\n"
    ],
    "startup/slow-startup": [
        "from keras import applications as a\nk = {1: a.ResNet50, 2: a.VGG16, 3: a.VGG19}\nm = k[n]()\nm.fit(x)\n"
    ],
    "host/eager-step": [
        OWN + "model = Net()\nstep = tf.function(model.train_step)\nfor x in ds:\n    step(x)\n",
        "tf.config.run_functions_eagerly(False)",
    ],
    "host/retracing": [STEP + "for x, y in ds:\n    step(x, y, 0.1)\n"],
    "host/compile-in-loop": [
        "for train in folds:\n    model = build()\n    model.compile('adam', 'mse')\n    model.fit(x[train], y)\n",
        "for layer in model.layers:\n    g = tf.function(layer)\n    g(x)\n",
        "for n in sizes:\n    @tf.function\n    def g(v):\n        return v + n\n    g(x)\n",
        "for _ in range(2):\n    @tf.function\n    def g(v):\n        return v + 1\n    g(x)\n",
    ],
    "host/predict-in-loop": [
        MODEL + "for part in np.array_split(order, 6):\n    x = [a[part], b[part]]\n    model.fit(x, y[part])\n",
        "for k in range(500):\n    x = np.random.rand(16, 4)\n    model.fit(x, x, epochs=50)\n",
        REPLAY.format(model="model = keras.Model(x, [a, b])", read="[0]"),
        REPLAY.format(model=MODEL.replace("\n", "\n        "), read="[0]").replace(
            ".fit(s, t, epochs=1)", ".fit(s, t)"
        ),
    ],
    "host/heavy-callback": ["cb = keras.callbacks.ModelCheckpoint('a.keras', save_freq=5000)"],
    "host/elementwise-preprocessing": [
        "x = np.random.rand(500, 4)\nout = []\nfor row in x:\n    out.append(np.sum(row ** 2))\nmodel.fit(x, out)\n"
    ],
    "host/miscounted-steps": [
        (
            "x = np.zeros((640, 3))\nds = tf.data.Dataset.from_tensor_slices(x).repeat().batch(32)\n"
            "model.fit(ds, steps_per_epoch=len(x) // 32, epochs=3)\n"
        )
    ],
    "host/frequent-validation": [
        (
            "test = tf.data.Dataset.from_tensor_slices(np.zeros((640, 3))).batch(32)\nfor step in range(10_000):\n"
            "    model.train_on_batch(a, b)\n    if step % 1000 == 0:\n        for v in test:\n            score(v)\n"
        )
    ],
    "host/garbage-collection": [
        "import gc\nfor i in range(9):\n    model.train_on_batch(x, x)\n    if i % 99 == 0:\n        gc.collect()\n"
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
