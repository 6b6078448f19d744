"""A tf.function made by each call of the function around it is made once, and remembered."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from slowtrain.causes.host.compile_in_loop import fix
from slowtrain.script.text import edits, source_file
from tests.source.cures.executed import executed_names

MOVED = """
import tensorflow as tf

def week(model, opt, ds, rate):
    seen = 0

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(model(x) - y))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    for x, y in ds:
        step(x, y)

for day in range(9):
    week(net, adam, data, 0.1)
"""
SUMMED = """
import tensorflow as tf
import functools

def week(model, ds):
    mean = tf.keras.metrics.Mean()

    @tf.function
    def step(x):
        mean.update_state(model(x))

    for x in ds:
        step(x)
    return mean.result()
"""
MADE = """
import tensorflow as tf

def make_step(model):
    @tf.function
    def step(x):
        return model(x)

    return step
"""
KEPT = """
import tensorflow as tf

class Trainer:
    def __init__(self):
        self.net = build()

    @property
    def update(self):
        return tf.function(self._update)

    def _update(self, x):
        return self.net(x)
"""
METHOD = """
import tensorflow as tf

class Trainer:
    def __init__(self):
        self.net = build()

    def epoch(self, ds):
        @tf.function
        def step(x):
            return self.net(x)
        for x in ds:
            step(x)
"""

RATED = """
import numpy as np
import tensorflow as tf
import keras

class Trainer:
    def __init__(self, net):
        self.net = net

    def make_update(self, rate):
        opt = keras.optimizers.SGD(rate, momentum=0.9)

        @tf.function
        def update(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.net(x) - y))
            opt.apply_gradients(zip(tape.gradient(loss, self.net.trainable_variables), self.net.trainable_variables))
            return loss

        return update

    def run(self, x, y):
        losses = []
        for epoch in range(4):
            update = self.make_update(0.1 / (epoch + 1))
            for _ in range(3):
                losses.append(float(update(x, y)))
        return losses
"""


def remembered(text: str, word: str) -> str | None:
    read = source_file.parse_source("train.py", text)
    assert read is not None
    line = next(i for i, row in enumerate(text.splitlines(), 1) if word in row)
    found = fix.remember_function(read, line)
    return edits.edited_text(read, found) if found else None


def test_it_moves_into_a_function_that_remembers() -> None:
    assert remembered(MOVED, "def step") == dedent("""
        import tensorflow as tf
        import functools

        @functools.lru_cache(maxsize=1)
        def make_step(model, opt):
            @tf.function
            def step(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.abs(model(x) - y))
                opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
                return loss

            return step


        def week(model, opt, ds, rate):
            seen = 0

            step = make_step(model, opt)

            for x, y in ds:
                step(x, y)

        for day in range(9):
            week(net, adam, data, 0.1)
        """)


def test_a_mean_that_it_adds_to_goes_along_and_is_emptied() -> None:
    assert remembered(SUMMED, "def step") == dedent("""
        import tensorflow as tf
        import functools

        @functools.lru_cache(maxsize=1)
        def make_step(model):
            mean = tf.keras.metrics.Mean()

            @tf.function
            def step(x):
                mean.update_state(model(x))

            return mean, step


        def week(model, ds):
            mean, step = make_step(model)
            mean.reset_state()

            for x in ds:
                step(x)
            return mean.result()
        """)


def test_what_only_makes_it_remembers_itself() -> None:
    assert remembered(MADE, "def step") == MADE.replace("as tf", "as tf\nimport functools").replace(
        "def make_step", "@functools.lru_cache(maxsize=1)\ndef make_step"
    )  # fmt: skip


def test_of_a_model_that_is_new_in_each_turn_nothing_is_remembered() -> None:
    build = "model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])"
    step = "    step = make_step(model)\n"
    assert remembered(f"{MADE}\n{build}\nfor fold in range(9):\n{step}", "def step") is not None
    assert remembered(f"{MADE}\nfor fold in range(9):\n    {build}\n{step}", "def step") is None
    both = f"{MADE}\nfor fold in range(9):\n    {build}\n{step}\n    step = make_step(other)\n"
    assert remembered(both, "def step") is not None


def test_a_property_keeps_what_it_gave() -> None:
    assert remembered(KEPT, "def update") == KEPT.replace("as tf", "as tf\nimport functools").replace(
        "@property", "@functools.cached_property"
    )  # fmt: skip


def test_of_a_method_the_new_function_goes_before_the_class() -> None:
    after = remembered(METHOD, "def step")
    assert after is not None
    assert "@functools.lru_cache(maxsize=1)\ndef make_step(self):\n    @tf.function" in after
    assert after.index("def make_step") < after.index("class Trainer")
    assert "        step = make_step(self)\n        for x in ds:" in after


def test_one_of_another_rate_gets_it_and_an_empty_optimizer() -> None:
    after = remembered(RATED, "def update")
    assert after is not None
    assert "@functools.lru_cache(maxsize=1)\ndef make_update_(self):\n" in after
    assert "    opt = keras.optimizers.SGD(learning_rate=0.0, momentum=0.9)\n" in after
    assert after.index("def make_update_") < after.index("class Trainer")
    assert "opt, update = make_update_(self)" in after
    assert "        opt.learning_rate = rate\n\n        return update\n" in after


@pytest.mark.tensorflow
def test_one_of_another_rate_trains_as_before(tmp_path: Path) -> None:
    run = (
        "\nkeras.utils.set_random_seed(0)\nx = np.random.rand(16, 4).astype('float32')\n"
        "net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])\n"
        "losses = [round(v, 6) for v in Trainer(net).run(x, x[:, :1])]\n"
    )
    after = remembered(RATED, "def update")
    assert after is not None
    before, losses = (executed_names(text + run, tmp_path)["losses"] for text in (RATED, after))
    assert losses == before
    assert len(losses) == 12


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (RATED, "update = self.make_update(0.1 / (epoch + 1))", "update = [self.make_update(r) for r in (1, 2)][1]"),
        (RATED, "losses = []", "losses, other = [], self.make_update(0.5)"),  # two at once
        (RATED, "return loss\n", "return loss * rate\n"),
        (RATED, "keras.optimizers.SGD(rate,", "keras.optimizers.Adagrad(rate,"),  # does not begin at zero
        (RATED, "momentum=0.9", "momentum=rate"),
        (RATED, "class Trainer:", "@dataclass\nclass Trainer:"),
        (MOVED, "seen = 0", "model = wrap(model)"),  # another model than the one given
        (MOVED, "tf.abs(model(x) - y)", "tf.abs(model(x) - y) * rate"),  # a number, which may be any
        (MOVED, "tf.abs(model(x) - y)", "tf.abs(tf.matmul(x, model) - y)"),  # an array, which has no hash
        (MOVED, "tf.abs(model(x) - y)", "tf.abs(model(x) - y) * seen"),  # what the call itself makes
        (SUMMED, "    @tf.function", "    print(mean.result())\n\n    @tf.function"),
        (SUMMED, "metrics.Mean()", "metrics.Mean(name=title)"),
        (MADE, "def make_step", "@once\ndef make_step"),
        (KEPT, "return tf.function(self._update)", "return tf.function(self._update) if self.fast else None"),
        (KEPT, "class Trainer:", "class Trainer:\n    __slots__ = ('net',)"),
        (METHOD, "    def epoch", "    def widen(self):\n        self.net = build(2)\n\n    def epoch"),
    ],
)
def test_left_alone(text: str, old: str, new: str) -> None:
    changed = text.replace(old, new)
    assert changed != text
    assert remembered(changed, "def update" if text in (KEPT, RATED) else "def step") is None
