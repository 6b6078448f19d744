"""What the causes of slow transfers find in source text, written in different ways, and what they leave alone."""

from __future__ import annotations

import pytest

from .test_spots_input import MINE, every, parsed, spots

HEAD = "import numpy as np\nimport tensorflow as tf\n"
STEP = (
    "@tf.function\ndef step(x, y):\n    with tf.GradientTape() as tape:\n        loss = net(x)\n"
    "    opt.apply_gradients(zip(tape.gradient(loss, net.weights), net.weights))\n    return loss\n"
)
DRAWN = "for i in range(99):\n    x = np.random.randn(%s)\n    model.train_on_batch(%s, x)\n"
DATA = "ds = tf.data.Dataset.from_tensor_slices(%s).batch(32).prefetch(2)\nmodel.fit(ds)\n"
COLUMNS = "cols = {f'c{i}': np.random.rand(900) for i in range(40)}\n"

FOUND = {
    "transfer/per-step-feed": [
        DRAWN % ("512, 256", "tf.convert_to_tensor(x, dtype=tf.float32)"),
        STEP + "adj = np.eye(4000)\nfor epoch in range(200):\n    step(tf.constant(adj, tf.float32), 0)\n",
        STEP + "class Graph:\n    def __init__(self):\n        self.rows = np.random.rand(400, 99).tolist()\n"
        "    def tensors(self):\n        return tf.constant(self.rows)\ngraph = Graph()\n"
        "for epoch in range(200):\n    x = graph.tensors()\n    step(x, 0)\n",
        STEP + "def draw(n):\n    left, right = zip(*(pair(k) for k in range(n)))\n    return list(left), list(right)\n"
        "def tensors(*fields):\n    return [tf.convert_to_tensor(f) for f in fields]\n"
        "for k in range(200):\n    batch = tensors(*draw(48))\n    step(*batch)\n",
        STEP + "def draw(n):\n    rows = [log[i] for i in rng.integers(0, 9000, n)]\n"
        "    return np.array([r['x'] for r in rows]), np.array([r['y'] for r in rows])\n"
        "for k in range(200):\n    step(*draw(512))\n",
        STEP
        + "def train():\n    data = np.zeros((512, 600, 600))\n    for e in range(4):\n        for i in range(16):\n"
        "            step(tf.constant(data[i:i + 1]), 0)\n",
    ],
    "transfer/per-step-readback": [
        STEP + "for x in ds:\n    loss = step(x, x)\n    for v in loss:\n        seen.append(float(v))\n",
        STEP + "for e in range(4):\n    for n, x in enumerate(ds):\n        loss = step(x, x)\n"
        "        print(f'{n} {loss:.3f}')\n",
        STEP + "def follow(slow, fast):\n"
        "    mixed = [0.9 * a + 0.1 * b for a, b in zip(slow.get_weights(), fast.get_weights())]\n"
        "    slow.set_weights(mixed)\nfor x in ds:\n    step(x, x)\n    for one in slow_ones:\n"
        "        follow(one, net)\n",
        STEP + "class T:\n    def run(self):\n        for x in ds:\n            self.step(x)\n"
        "            worst = max([v.numpy().max() for v in self.net.trainable_variables])\n"
        "    def step(self, x):\n        with tf.GradientTape() as t:\n            return x\n",
    ],
    "transfer/small-copies": [
        COLUMNS + "model.fit(cols, y)\n",
        COLUMNS + DATA % "(cols, y)",
        COLUMNS + "def make():\n    return tf.data.Dataset.from_tensor_slices(cols)\nmodel.fit(make().batch(8))\n",
    ],
    "transfer/wide-input": [
        "x = np.random.rand(5000, 4096)\n" + DATA % "x",
        "rng = np.random.default_rng(0)\nx = rng.normal(size=(500, 200, 40))\n" + DATA % "(x, labels)",
        (
            "def make():\n    x = np.zeros((500, 6400))\n"
            "    return tf.data.Dataset.from_tensor_slices({'a': x}).batch(8)\n"
            "model.fit(make(), epochs=3)\n"
        ),
    ],
}
QUIET = {
    "transfer/per-step-feed": [
        STEP + "def train():\n    data = np.zeros((512, 99))\n    for e in range(4):\n        for i in range(16):\n"
        "            step(tf.constant(data[i:i + 1]), 0)\n",
        STEP
        + "frames = np.stack(read(), 1).astype('float32')\nfor e in range(4):\n    order = np.random.permutation(512)\n"
        "    for i in range(0, 512, 64):\n        step(tf.constant(frames[order[i:i + 64]]), 0)\n",
        DRAWN % ("8, 4", "tf.convert_to_tensor(x, dtype=tf.float32)"),
        STEP + "rate = 0.1\nfor epoch in range(200):\n    step(x, tf.constant(rate))\n",
        STEP + "part = np.zeros((4, 4))\nfor epoch in range(200):\n    step(x, tf.constant(part))\n",
        STEP + "def draw(n):\n    rows = [log[i] for i in rng.integers(0, 9000, n)]\n"
        "    return np.array([r['x'] for r in rows]), np.array([r['y'] for r in rows])\n"
        "for k in range(200):\n    step(*draw(32))\n",
    ],
    "transfer/per-step-readback": [
        STEP + "for n, x in enumerate(ds):\n    step(x, x)\n    if n % 100 == 0:\n"
        "        target.set_weights(net.get_weights())\n",
        ("for e in range(4):\n    for x in ds:\n        loss = model.train_on_batch(x)\n        print(float(loss))\n"),
        STEP + "for e in range(4):\n    for x in ds:\n        loss = step(x, x)\n        print('step', e)\n",
    ],
    "transfer/small-copies": [
        COLUMNS.replace("40", "4") + "model.fit(cols, y)\n",
        COLUMNS + DATA % "np.stack(list(cols.values()), 1)",
        COLUMNS + "print(cols)\nmodel.fit(read(), y)\n",
    ],
    "transfer/wide-input": [
        "x = np.random.rand(5000)\n" + DATA % "x",
        (
            "x = np.random.rand(500, 64)\nds = tf.data.Dataset.from_tensor_slices(x)\n"
            "ds = ds.map(lambda v: tf.cast(v, tf.float32)).batch(8)\nmodel.fit(ds)\n"
        ),
        "x = np.load('x.npy')\n" + DATA % "x",
    ],
}


@pytest.mark.parametrize(("cause", "text"), every(FOUND))
def test_found(cause: str, text: str) -> None:
    assert spots(MINE[cause], HEAD + text)


@pytest.mark.parametrize(("cause", "text"), every(QUIET))
def test_left_alone(cause: str, text: str) -> None:
    assert spots(MINE[cause], HEAD + text) == []


def test_each_cause_has_its_examples() -> None:
    assert set(FOUND) == set(QUIET) == {c for c in MINE if c.startswith("transfer/")}
    assert all(len(texts) >= 3 for texts in (*FOUND.values(), *QUIET.values()))


def test_one_finding_for_all_that_a_loop_reads_back() -> None:
    text = HEAD + STEP + "for e in range(4):\n    for x in ds:\n        loss = step(x, x)\n"
    text += "        print(float(loss))\n        print(loss.numpy())\n        print([float(v) for v in loss])\n"
    assert len(list(MINE["transfer/per-step-readback"].spot(parsed(text)))) == 1
