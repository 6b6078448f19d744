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
        ("model.compile('adam', 'mse', run_eagerly=True)", 1),
        ("tf.config.run_functions_eagerly(True)", 1),
        (STEP.replace("@tf.function\n", "") + "for x, y in ds:\n    step(x, y, 1.0)\n", 1),
        ("for x in ds:\n    with tf.GradientTape() as tape:\n        y = m(x)\n    opt.minimize(y, w, tape=tape)\n", 2),
        ("RUN = {'eager': True}\ndef start(cfg):\n    tf.config.run_functions_eagerly(cfg['eager'])\nstart(RUN)\n", 3),
        (OWN + "model = Net()\nstep = model.train_step\nfor x in ds:\n    step(x)\n", 7),
    ],
    "host/retracing": [
        (STEP + "rate = 1.0\nfor x, y in ds:\n    rate = rate * 0.9\n    step(x, y, rate)\n", 10),
        (STEP + "for i, (x, y) in enumerate(ds):\n    step(x, y, i)\n", 8),
        (STEP + "for i in range(1000):\n    step(x, y, rate=0.1 * i)\n", 8),
        (STEP + "while True:\n    n = rng.integers(1, 9)\n    x = np.zeros((8, n))\n    step(x, y, 1.0)\n", 10),
        (
            STEP + "def batches():\n    for rows in data:\n        longest = max(map(len, rows))\n"
            "        yield tf.constant(np.zeros((8, longest))), rows\n\nfor x, y in batches():\n    step(x, y, 1.0)\n",
            13,
        ),
        ("class Rate:\n    def __call__(self, n):\n        return max(0.1, 0.9 * n)\n" + STEP
         + "rate = Rate()\nfor n in range(999):\n    step(x, y, rate(n))\n", 13),
        (STEP + "def cut(rows):\n    n = max(len(r) for r in rows)\n    return np.zeros((8, n)), rows\n\n"
         "for rows in data:\n    x, y = cut(rows)\n    step(x, y, 1.0)\n", 13),
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
        ("for k in range(500):\n    x = np.random.rand(16, 4)\n    model.fit(x, x)\n", 3),
        (REPLAY.format(model=MODEL.replace("\n", "\n        "), read="[0]"), 8),
        (REPLAY.format(model=MODEL.replace("\n", "\n        "), read="[0, :]"), 8),
    ],
    "host/heavy-callback": [
        (HOOK.format("on_train_batch_end", "self.model.save('x.keras')"), 2),
        (HOOK.format("on_batch_begin", "np.save('x.npy', self.model.get_weights())"), 2),
        (HOOK.format("on_train_batch_end", "self.keep()\n    def keep(self):\n        self.model.predict(x)"), 2),
        ("cb = keras.callbacks.ModelCheckpoint('a.keras', save_freq=1)", 1),
        ("cb = keras.callbacks.TensorBoard('logs', histogram_freq=1, write_images=True)", 1),
        ("cb = keras.callbacks.LambdaCallback(on_train_batch_end=lambda b, logs: model.save('x.keras'))", 1),
    ],
    "host/elementwise-preprocessing": [
        (
            ("x = np.random.rand(500_000, 4)\nout = []\nfor row in x:\n    out.append(np.sum(row ** 2))\n"
            "energy = np.array(out)\nmodel.fit(x, energy)\n"),
            3,
        ),
        (
            ("x = np.random.rand(1000, 300)\nfor i in range(len(x)):\n    for j in range(x.shape[1]):\n"
            "        x[i, j] = np.sqrt(x[i, j])\nmodel.fit(x, x)\n"),
            2,
        ),
        (
            ("N = 2000\nout = np.zeros((N, N))\nfor i in range(N):\n    for j in range(N):\n"
            "        out[i, j] = lookup(i).get(j, 0)\nmodel.fit(out, y)\n"),
            3,
        ),
    ],
    "host/miscounted-steps": [
        (("x = np.zeros((640, 3))\nds = tf.data.Dataset.from_tensor_slices(x).repeat().batch(32)\n"
         "model.fit(ds, steps_per_epoch=len(x), epochs=3)\n"), 3),
        (("ds = tf.data.Dataset.from_tensor_slices(x).repeat().batch(32)\n"
         "model.fit(ds, steps_per_epoch=x.shape[0], epochs=3)\n"), 2),
        (("x = np.load('x.npy')\nn = len(x)\nds = tf.data.Dataset.from_tensor_slices(x).batch(SIZE).repeat()\n"
         "model.fit(ds, epochs=3, steps_per_epoch=n)\n"), 4),
        ("ds = tf.data.Dataset.from_tensor_slices(x).repeat(EPOCHS).batch(8)\nmodel.fit(ds, epochs=EPOCHS)\n", 1),
    ],
    "host/frequent-validation": [
        ("x, v = np.zeros((100, 3)), np.zeros((5000, 3))\nmodel.fit(x, x, epochs=20, validation_data=(v, v))\n", 2),
        ("x = np.random.rand(256, 3)\nmodel.fit(x, x, batch_size=256, epochs=50, validation_data=(x[:9], x[:9]))\n", 2),
        (
            ("x = np.zeros((4096, 3))\ntest = tf.data.Dataset.from_tensor_slices(x).batch(32)\n"
            "for step in range(1000):\n    model.train_on_batch(a, b)\n    if step % 10 == 0:\n"
            "        for v in test:\n            score(v)\n"),
            5,
        ),
    ],
    "host/garbage-collection": [
        ("import gc\nfor x in ds:\n    model.train_on_batch(x, x)\n    gc.collect()\n", 4),
        ("from gc import collect\nwhile True:\n    model.train_on_batch(x, x)\n    collect()\n", 4),
        ("import gc\n" + HOOK.format("on_train_batch_end", "gc.collect()").lstrip("\n"), 4),
        ("import gc\ndef tidy():\n    gc.collect()\nfor x in ds:\n    model.train_on_batch(x, x)\n    tidy()\n", 3),
        (("import gc\nclass Held:\n    def __enter__(self): pass\n    def __exit__(self, *e):\n        gc.collect()\n"
          "held = Held()\nfor x in ds:\n    with held:\n        model.train_on_batch(x, x)\n"), 5),
    ],
    "drift/growing-step": [
        ("b = tf.zeros((0, 4))\nfor x in ds:\n    model.train_on_batch(x, x)\n    b = tf.concat([b, x], 0)\n", 4),
        (("class Run:\n    def __init__(self):\n        self.all = np.zeros((0, 4))\n    def keep(self, x):\n"
         "        self.all = np.concatenate([self.all, x])\nrun = Run()\n"
         "for x in stream:\n    run.keep(x)\n    model.train_on_batch(x, x)\n"), 5),
        ("ds = tf.data.Dataset.range(9)\nfor e in range(30):\n    ds = ds.map(f)\n    model.fit(ds)\n", 3),
    ],
    "startup/slow-startup": [
    ],
}  # fmt: skip

QUIET = {
    "drift/growing-step": [
        "b = tf.zeros((0, 4))\nfor x in ds:\n    model.train_on_batch(x, x)\n    b = tf.concat([b, x], 0)[-9:]\n",
        "for x in ds:\n    b = np.zeros((0, 4))\n    b = np.concatenate([b, x])\n    model.train_on_batch(b, x)\n",
        "out = np.zeros((0, 4))\nfor x in ds:\n    out = np.concatenate([out, model(x)])\nmodel.fit(out, out)\n",
        "raw = tf.data.Dataset.range(9)\nfor e in range(30):\n    ds = raw.map(f)\n    model.fit(ds)\n",
    ],
    "startup/slow-startup": [
        "from keras import applications as a\nk = {1: a.ResNet50, 2: a.VGG16, 3: a.VGG19}\nm = k[n]()\nm.fit(x)\n",
        (
            "from keras import applications as a\nms = {1: a.ResNet50(), 2: a.VGG16(), 3: a.Xception()}\n"
            "for m in ms.values():\n    m.fit(x, y)\n"
        ),
    ],
    "host/eager-step": [
        OWN + "model = Net()\nstep = tf.function(model.train_step)\nfor x in ds:\n    step(x)\n",
        OWN + "model = Net()\nmodel.fit(ds)\n",
        "model.compile('adam', 'mse', run_eagerly=False)",
        "model.compile('adam', 'mse', run_eagerly=DEBUG)",
        STEP + "for x, y in ds:\n    step(x, y, 1.0)\n",
        "tf.config.run_functions_eagerly(False)",
    ],
    "host/retracing": [
        STEP + "for x, y in ds:\n    step(x, y, 0.1)\n",
        STEP + "for i in tf.range(1000):\n    step(x, y, i)\n",
        STEP + "for i in range(3):\n    step(x, y, i)\n",
        STEP + "for i in range(999):\n    step(x, y, tf.constant(i))\n",
        STEP.replace("function", "function(reduce_retracing=True)") + "for i in range(999):\n    step(x, y, i)\n",
        STEP + "for rate in (0.1, 0.2):\n    for x, y in ds:\n        step(x, y, rate)\n",
        STEP.replace("@tf.function\n", "") + "for i in range(999):\n    step(x, y, i)\n",
        STEP + "for n in sizes:\n    x = tf.constant(np.zeros((8, 16)))\n    step(x, y, 1.0)\n",
    ],
    "host/compile-in-loop": [
        "for units in (8, 16, 32):\n    model = build(units)\n    model.compile('adam', 'mse')\n    model.fit(x, y)\n",
        "for train in folds:\n    model = build()\n    model.compile('adam', 'mse')\n    model.fit(x[train], y)\n",
        "for layer in model.layers:\n    g = tf.function(layer)\n    g(x)\n",
        "for n in sizes:\n    @tf.function\n    def g(v):\n        return v + n\n    g(x)\n",
        "for p in patterns:\n    r = re.compile(p)\n",
        "for _ in range(2):\n    @tf.function\n    def g(v):\n        return v + 1\n    g(x)\n",
    ],
    "host/predict-in-loop": [
        MODEL + "for part in np.array_split(order, 6):\n    x = [a[part], b[part]]\n    model.fit(x, y[part])\n",
        MODEL + "a = model.predict(x[None])\n",
        MODEL + "for f in files:\n    a = model.predict(np.load(f))\n",
        "clf = KNeighborsClassifier()\nfor s in data:\n    clf.predict(s[None])\n",
        MODEL + "for k in range(3):\n    a = model.predict(x[None])\n",
        "for train in folds:\n    model = build()\n    x = np.random.rand(16, 4)\n    model.fit(x, x)\n",
        "for k in range(500):\n    x = np.random.rand(16, 4)\n    model.fit(x, x, epochs=50)\n",
        REPLAY.format(model=MODEL.replace("\n", "\n        "), read=""),
        REPLAY.format(model="model = keras.Model(x, [a, b])", read="[0]"),
        REPLAY.format(model=MODEL.replace("\n", "\n        "), read="[0]").replace(
            ".fit(s, t, epochs=1)", ".fit(s, t)"
        ),
    ],
    "host/heavy-callback": [
        HOOK.format("on_epoch_end", "self.model.save('x.keras')"),
        HOOK.format("on_train_batch_end", "if batch % 100 == 0:\n            self.model.save('x.keras')"),
        HOOK.format("on_train_batch_end", "self.losses.append(logs['loss'])"),
        "cb = keras.callbacks.ModelCheckpoint('a.keras', save_freq='epoch')",
        "cb = keras.callbacks.ModelCheckpoint('a.keras', save_freq=5000)",
        "cb = keras.callbacks.TensorBoard('logs', histogram_freq=1)",
    ],
    "host/elementwise-preprocessing": [
        "x = np.random.rand(500, 4)\nout = []\nfor row in x:\n    out.append(np.sum(row ** 2))\nmodel.fit(x, out)\n",
        "x = np.load('x.npy')\nout = []\nfor row in x:\n    out.append(np.sum(row ** 2))\nmodel.fit(x, out)\n",
        "x = np.random.rand(500_000, 4)\nout = []\nfor row in x:\n    out.append(np.sum(row ** 2))\n",
        "x = np.random.rand(500_000, 4)\nout = np.sum(x ** 2, axis=1)\nmodel.fit(x, out)\n",
    ],
    "host/miscounted-steps": [
        (
            "x = np.zeros((640, 3))\nds = tf.data.Dataset.from_tensor_slices(x).repeat().batch(32)\n"
            "model.fit(ds, steps_per_epoch=len(x) // 32, epochs=3)\n"
        ),
        "ds = load().batch(32)\nmodel.fit(ds.repeat(), steps_per_epoch=len(ds), epochs=3)\n",
        "model.fit(flow, steps_per_epoch=len(flow), epochs=3)\n",
        "ds = tf.data.Dataset.from_tensor_slices(x).repeat(EPOCHS).batch(8)\nmodel.fit(ds, epochs=1)\n",
        (
            "ds = tf.data.Dataset.from_tensor_slices(x).repeat(EPOCHS).batch(8)\n"
            "model.fit(ds, epochs=EPOCHS, steps_per_epoch=9)\n"
        ),
        "ds = tf.data.Dataset.from_tensor_slices(x).repeat(3).batch(8)\nmodel.fit(ds, epochs=EPOCHS)\n",
    ],
    "host/frequent-validation": [
        "x, v = np.zeros((5000, 3)), np.zeros((100, 3))\nmodel.fit(x, x, epochs=20, validation_data=(v, v))\n",
        "x, v = np.load(a), np.load(b)\nmodel.fit(x, x, epochs=20, validation_data=(v, v))\n",
        (
            "x, v = np.zeros((100, 3)), np.zeros((5000, 3))\n"
            "model.fit(x, x, epochs=20, validation_data=(v, v), validation_freq=10)\n"
        ),
        "x, v = np.zeros((100, 3)), np.zeros((5000, 3))\nmodel.fit(x, x, epochs=1, validation_data=(v, v))\n",
        (
            "test = tf.data.Dataset.from_tensor_slices(np.zeros((640, 3))).batch(32)\nfor step in range(10_000):\n"
            "    model.train_on_batch(a, b)\n    if step % 1000 == 0:\n        for v in test:\n            score(v)\n"
        ),
    ],
    "host/garbage-collection": [
        "import gc\nfor e in range(9):\n    for x in ds:\n        model.train_on_batch(x, x)\n    gc.collect()\n",
        "import gc\nfor i in range(9):\n    model.train_on_batch(x, x)\n    if i % 99 == 0:\n        gc.collect()\n",
        "import gc\nfor x in ds:\n    prepare(x)\n    gc.collect()\n",
        "import gc\ndef tidy():\n    gc.collect()\nfor x in ds:\n    model.train_on_batch(x, x)\ntidy()\n",
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
