"""Small training scripts, one for each way to train, with the steps that each takes."""

from __future__ import annotations

from typing import NamedTuple

HEADER = """
import numpy as np
import tensorflow as tf
from tensorflow import keras

tf.keras.utils.set_random_seed(1)
x = np.random.rand(640, 32).astype("float32")
y = np.random.rand(640, 1).astype("float32")

def build(jit=False, eager=False, many=1):
    model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=jit, run_eagerly=eager, steps_per_execution=many)
    return model
"""

STEP = """
model = build()
optimizer = keras.optimizers.SGD(0.01)

@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
"""


class Loop(NamedTuple):
    script: str
    source: str  # what a step must be taken for
    steps: int
    versions: str = "2 3"  # of Keras
    windowed: bool = True  # long enough for a deep window


def loop(script: str, source: str, steps: int, versions: str = "2 3", windowed: bool = True) -> Loop:
    return Loop(HEADER + script, source, steps, versions, windowed)


GENERATOR = """
def batches(turns):
    for i in range(turns):
        k = (i % 20) * 32
        yield x[k:k + 32], y[k:k + 32]
"""
SEQUENCE = """
class Batches(keras.utils.{base}):
    def __len__(self): return 20
    def __getitem__(self, i): return x[i * 32:i * 32 + 32], y[i * 32:i * 32 + 32]
"""
DATASET = "ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(640).batch(32)\n"

LOOPS = {
    "fit arrays": loop("build().fit(x, y, epochs=30, verbose=0, validation_split=0.2)", "fit", 480),
    "fit data set": loop(DATASET + "build().fit(ds.prefetch(2), epochs=30, verbose=0)", "fit", 600),
    "fit generator": loop(
        GENERATOR + "build().fit(batches(700), steps_per_epoch=100, epochs=7, verbose=0)", "fit", 700
    ),
    "fit PyDataset": loop(
        SEQUENCE.format(base="PyDataset") + "build().fit(Batches(), epochs=30, verbose=0)", "fit", 600, "3"
    ),
    "fit Sequence": loop(
        SEQUENCE.format(base="Sequence") + "build().fit(Batches(), epochs=30, verbose=0)", "fit", 600, "2"
    ),
    "several steps per execution": loop("build(many=5).fit(x, y, epochs=100, verbose=0)", "fit", 400),
    "jit_compile": loop("build(jit=True).fit(x, y, epochs=40, verbose=0)", "fit", 800),
    "run_eagerly": loop("build(eager=True).fit(x, y, epochs=5, verbose=0)", "fit", 100),
    "evaluate": loop("build().evaluate(np.tile(x, (70, 1)), np.tile(y, (70, 1)), verbose=0)", "evaluate", 1400),
    "predict": loop("build().predict(np.tile(x, (70, 1)), verbose=0)", "predict", 1400),
    "train_on_batch": loop(
        GENERATOR + "model = build()\nfor a, b in batches(500):\n    model.train_on_batch(a, b)", "train_on_batch", 500
    ),
    "own loop, data set": loop(
        STEP
        + DATASET
        + "for epoch in range(60):\n    for a, b in ds:\n        loss = train_step(a, b)\n    print(float(loss))",
        "function train_step",
        1200,
    ),
    "own loop, generator": loop(
        STEP + GENERATOR + "for a, b in batches(1200):\n    train_step(tf.constant(a), tf.constant(b))",
        "function train_step",
        1200,
    ),
    "own loop, arrays": loop(
        STEP + "for i in range(500):\n    k = (i % 20) * 32\n    train_step(x[k:k + 32], y[k:k + 32])",
        "function train_step",
        500,
        windowed=False,  # retraces for every array in Keras 2: the calls are the same, their values are not
    ),
    "eager loop": loop(
        STEP.replace("@tf.function\n", "")
        + DATASET
        + "for epoch in range(6):\n    for a, b in ds:\n        loss = train_step(a, b)",
        "gradient",
        120,
    ),
    "mirrored fit": loop(
        DATASET
        + "strategy = tf.distribute.MirroredStrategy(['/cpu:0'])\nwith strategy.scope():\n    model = build()\n"
        + "model.fit(ds, epochs=20, verbose=0)",
        "fit",
        400,
    ),
    "mirrored loop": loop(
        DATASET
        + "strategy = tf.distribute.MirroredStrategy(['/cpu:0'])\nwith strategy.scope():\n"
        + "    w = tf.Variable(tf.zeros([32, 1]))\n"
        + """
def replica_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((a @ w - b) ** 2)
    w.assign_sub(0.01 * tape.gradient(loss, w))
    return loss

@tf.function
def distributed_step(batch):
    return strategy.reduce("MEAN", strategy.run(replica_step, args=batch), axis=None)

for epoch in range(30):
    for batch in strategy.experimental_distribute_dataset(ds):
        distributed_step(batch)
""",
        "function distributed_step",
        600,
    ),
    "a model that makes its own step": loop(
        """
class Mine(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, a): return self.dense(a)
    def make_train_function(self, force=False):
        @tf.function
        def step(iterator):
            a, b = next(iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(a, training=True) - b) ** 2)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
            return {"loss": loss}
        self.train_function = step
        return step
model = Mine()
model.compile("sgd", "mse")
model.fit(x, y, epochs=60, verbose=0)
""",
        "fit",
        1200,
        "2",
    ),
}
