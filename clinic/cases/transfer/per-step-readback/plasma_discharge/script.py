# Residual surrogate for the voltage/current curve of a glow discharge
import csv
import os
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(8)
WIDTH, BLOCKS, BATCH, STEPS = 48, 12, 64, 500


def discharge(n):
    rng = np.random.default_rng(8)
    knobs = rng.uniform(-1, 1, (n, 6)).astype(np.float32)
    p, gap, v, t, r, f = knobs.T
    current = np.tanh(2 * v - p * gap) + 0.3 * np.sin(4 * t) * r + 0.1 * f ** 2
    return knobs, current.astype(np.float32)[:, None]


class Block(keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.inner = keras.layers.Dense(width, activation="tanh")

    def build(self, shape):
        self.inner.build(shape)
        self.built = True

    def call(self, x):
        return x + 0.5 * self.inner(x)


def surrogate():
    inp = keras.Input((6,))
    h = keras.layers.Dense(WIDTH)(inp)
    for _ in range(BLOCKS):
        h = Block(WIDTH)(h)
    return keras.Model(inp, keras.layers.Dense(1)(h))


model = surrogate()
optimizer = keras.optimizers.Adam(2e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss, grads


knobs, current = discharge(8192)
ds = (tf.data.Dataset.from_tensor_slices((knobs, current))
      .shuffle(8192).repeat().batch(BATCH).prefetch(4).take(STEPS))

path = os.path.join(tempfile.mkdtemp(), "gradients.csv")
started = time.time()
with open(path, "w", newline="") as f:
    log = csv.writer(f)
    log.writerow(["step", "loss"] + [v.path for v in model.trainable_variables])
    for step, (x, y) in enumerate(ds):
        loss, grads = train_step(x, y)
        norms = [float(tf.norm(g)) for g in grads]
        peaks = [float(tf.reduce_max(tf.abs(g))) for g in grads]
        log.writerow([step, float(loss)] + [f"{n:.3e}/{p:.3e}" for n, p in zip(norms, peaks)])
        if step % 200 == 0:
            print(step, float(loss), "largest gradient", max(peaks))
took = time.time() - started

print("mse", float(loss))
print("WORK", STEPS)
print("TRAIN_SECONDS", took)
