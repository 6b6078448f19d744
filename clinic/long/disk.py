"""A loop that stands still for the disk: every few hundred steps all predictions so far are written and synced."""

import os
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf

SECONDS = 60 * float(sys.argv[1]) if len(sys.argv) > 1 else 600
EVERY = 400

rng = np.random.default_rng(0)
x = rng.random((8192, 64), dtype="float32")
y = x @ rng.random((64, 1), dtype="float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(8192).batch(256).repeat().prefetch(2)

model = keras.Sequential(
    [
        keras.layers.Input((64,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(1),
    ]
)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(batch, target):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - target))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


predictions = np.zeros((4_000_000,), "float32")


def save(path):
    with open(path, "wb") as file:
        for _ in range(4):
            file.write(predictions.tobytes())
        file.flush()
        os.fsync(file.fileno())


with tempfile.TemporaryDirectory() as folder:
    end = time.monotonic() + SECONDS
    for step, (batch, target) in enumerate(data):
        loss = train_step(batch, target)
        if step % EVERY == EVERY - 1:
            save(os.path.join(folder, "predictions.bin"))
        if step % 2000 == 0:
            print(step, float(loss), flush=True)
        if time.monotonic() > end:
            break
