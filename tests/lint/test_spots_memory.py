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
LOOP = "history, losses = [], []\nkept = []\nfor x in ds:\n    loss, grads = step(x)\n"
SESSION = "import tensorflow.compat.v1 as tf\ntf.disable_eager_execution()\nsess = tf.Session()\n"
FOUND = {
    "gradients beside the loss": STEP + LOOP + "    kept.append((loss, grads))\n",
    "an array that grows": STEP + "bank = tf.zeros((9, 4))\nfor x in ds:\n    loss, keys = step(x)\n"
    "    bank = tf.concat([bank, keys], axis=0)  # append(\n",
    "an attribute that grows": STEP
    + "class Book:\n    def __init__(self):\n        self.z = np.zeros((0, 9))\n    def add(self, z):\n"
    "        self.z = np.concatenate([self.z, z])  # append(\nbook = Book()\nfor x in ds:\n    loss, z = step(x)\n"
    "    book.add(z)\n",
    "an op a turn, by its name": SESSION
    + "for i in range(5000):\n    op = tf.reduce_mean(y)\n    print(sess.run(op))\n",
    "ops of a method": SESSION + "class Agent:\n    def soften(self):\n        moved = self.slow.assign(self.fast)\n"
    "        return moved\nagent = Agent()\nfor i in range(5000):\n    sess.run(agent.soften())\n",
}
QUIET = {
    "losses": STEP + LOOP + "    kept.append(loss)\n",
    "cleared": STEP + LOOP + "    kept.append(grads)\n    if len(kept) > 9:\n        kept.clear()\n",
    "made anew each epoch": STEP + "for e in range(50):\n    kept = []\n    for x in ds:\n"
    "        loss, grads = step(x)\n        kept.append(grads)\n",
    "an array made anew each epoch": STEP + "for e in range(50):\n    bank = tf.zeros((0, 4))\n    for x in ds:\n"
    "        loss, keys = step(x)\n        bank = tf.concat([bank, keys], axis=0)\n",
    "an array of numbers": STEP + "seen = np.zeros(0)\nfor x in ds:\n    loss, _ = step(x)\n"
    "    seen = np.concatenate([seen, [loss]])\n",
    "a graph each turn": SESSION
    + "for i in range(5000):\n    with tf.Graph().as_default():\n        sess.run(tf.add(a, i))\n",
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
