"""What is seen in source text of memory that grows, and what is left alone."""

from __future__ import annotations

import pytest

from .spotted import seen

CAUSE = "memory/host-leak"
STEP = (
    "import numpy as np\nimport tensorflow as tf\n@tf.function\ndef step(x):\n"
    "    with tf.GradientTape() as tape:\n        loss = net(x)\n"
    "    grads = tape.gradient(loss, net.weights)\n    opt.apply_gradients(zip(grads, net.weights))\n"
    "    return loss, grads\n"
)
KEEPER = (
    "import tensorflow as tf\nclass Watch:\n    def __init__(self):\n        self.seen = []\n    def update(self, v):\n"
    "        self.seen.append(v)\n    def last(self):\n        return tf.concat(%s, 0)\nwatch = Watch()\n@tf.function\n"
    "def step(x):\n    with tf.GradientTape() as tape:\n        each = tf.square(net(x) - x)\n"
    "        loss = tf.reduce_mean(each)\n    opt.apply_gradients(zip(tape.gradient(loss, v), v))\n"
    "    return loss, each\n"
)
LOOP = "history, losses = [], []\nkept = []\nfor x in ds:\n    loss, grads = step(x)\n"
SESSION = "import tensorflow.compat.v1 as tf\ntf.disable_eager_execution()\nsess = tf.Session()\n"
FOUND = {
    "gradients beside the loss": STEP + LOOP + "    kept.append((loss, grads))\n",
    "in a function": STEP
    + "def train():\n    kept = []\n    for e in range(50):\n        for x in ds:\n            loss, grads = step(x)\n"
    "            kept.append(grads)\n    return kept\n",
    "an array that grows": STEP + "bank = tf.zeros((9, 4))\nfor x in ds:\n    loss, keys = step(x)\n"
    "    bank = tf.concat([bank, keys], axis=0)  # append(\n",
    "an attribute that grows": STEP
    + "class Book:\n    def __init__(self):\n        self.z = np.zeros((0, 9))\n    def add(self, z):\n"
    "        self.z = np.concatenate([self.z, z])  # append(\nbook = Book()\nfor x in ds:\n    loss, z = step(x)\n"
    "    book.add(z)\n",
    "a list of tensors": KEEPER % "self.seen[-9:]" + "for x in ds:\n    loss, each = step(x)\n    watch.update(each)\n",
    "an op a turn": SESSION + "for i in range(5000):\n    sess.run(tf.add(a, i))\n",
    "an op a turn, by its name": SESSION
    + "for i in range(5000):\n    op = tf.reduce_mean(y)\n    print(sess.run(op))\n",
    "an assignment a turn": SESSION + "for i in range(5000):\n    sess.run(rate.assign(0.1 / i))\n",
    "ops of a method": SESSION + "class Agent:\n    def soften(self):\n        moved = self.slow.assign(self.fast)\n"
    "        return moved\nagent = Agent()\nfor i in range(5000):\n    sess.run(agent.soften())\n",
}
QUIET = {
    "losses": STEP + LOOP + "    kept.append(loss)\n",
    "a norm": STEP + LOOP + "    kept.append(tf.linalg.global_norm(grads))\n",
    "cleared": STEP + LOOP + "    kept.append(grads)\n    if len(kept) > 9:\n        kept.clear()\n",
    "made anew each epoch": STEP + "for e in range(50):\n    kept = []\n    for x in ds:\n"
    "        loss, grads = step(x)\n        kept.append(grads)\n",
    "now and then": STEP + LOOP + "    if first:\n        kept.append(grads)\n",
    "an array made anew each epoch": STEP + "for e in range(50):\n    bank = tf.zeros((0, 4))\n    for x in ds:\n"
    "        loss, keys = step(x)\n        bank = tf.concat([bank, keys], axis=0)\n",
    "an array of numbers": STEP + "seen = np.zeros(0)\nfor x in ds:\n    loss, _ = step(x)\n"
    "    seen = np.concatenate([seen, [loss]])\n",
    "a list that is read": KEEPER % "self.seen" + "for x in ds:\n    loss, each = step(x)\n    watch.update(each)\n",
    "a graph each turn": SESSION
    + "for i in range(5000):\n    with tf.Graph().as_default():\n        sess.run(tf.add(a, i))\n",
    "an array of NumPy's a turn": SESSION + "for i in range(5000):\n    fed = np.ones(3)\n    sess.run(op, {a: fed})\n",
    "once": SESSION + "sess.run(tf.global_variables_initializer())\n",
    "ops that a function keeps": SESSION + "made = {}\ndef follow():\n    if not made:\n        made[0] = t.assign(w)\n"
    "    return made[0]\nfor i in range(5000):\n    sess.run(follow())\n",
    "ops that are remembered": SESSION + "@functools.cache\ndef follow():\n    return t.assign(w)\n"
    "for i in range(5000):\n    sess.run(follow())\n",
    "a function of numbers": SESSION + "def fed():\n    return names[0]\nfor i in range(5000):\n    sess.run(fed())\n",
    "another run, of a function": SESSION
    + "import subprocess\ndef make(i):\n    return str(tf.add(i, 1))\nfor i in range(5000):\n"
    "    subprocess.run(make(i))\n",
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND)
def test_found(text: str) -> None:
    found = seen(text, [CAUSE])
    assert len(found) == 1
    last = max(i for i, line in enumerate(text.splitlines(), 1) if "append(" in line or ".run(" in line)
    assert found[0].line == last


@pytest.mark.parametrize("text", QUIET.values(), ids=QUIET)
def test_left_alone(text: str) -> None:
    assert seen(text, [CAUSE]) == []
