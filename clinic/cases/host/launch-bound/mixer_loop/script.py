"""A token mixer with norms written by hand, trained in a graph of many small ops."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
LAYERS, BATCH, STEPS = (4, 64, 150) if SMALL else (10, 128, 900)
WIDTH = 256

rng = np.random.default_rng(6)
table = rng.random((64 * BATCH, WIDTH), dtype="float32")
weights = [tf.Variable(tf.random.normal((WIDTH, WIDTH), stddev=0.05)) for _ in range(LAYERS)]
gains = [tf.Variable(tf.ones((WIDTH,))) for _ in range(LAYERS)]
optimizer = tf.keras.optimizers.Adam(1e-4)
optimizer.build(weights + gains)


def norm(h, gain):
    mean = tf.reduce_mean(h, axis=1, keepdims=True)
    variance = tf.reduce_mean(tf.square(h - mean), axis=1, keepdims=True)
    return (h - mean) * tf.math.rsqrt(variance + 1e-6) * gain


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        h = batch
        for weight, gain in zip(weights, gains):
            u = norm(h, gain) @ weight
            h = h + u * tf.sigmoid(1.702 * u)
        loss = tf.reduce_mean(tf.square(h - batch[:, ::-1]))
    variables = weights + gains
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


rows = tf.data.Dataset.from_tensor_slices(table).batch(BATCH, drop_remainder=True).cache().repeat().prefetch(8)
source = iter(rows)
train_step(next(source))
t0 = time.perf_counter()
for step in range(STEPS):
    loss = train_step(next(source))
    if step % 100 == 0:
        tf.print(step, loss)
print("last", float(loss))
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
