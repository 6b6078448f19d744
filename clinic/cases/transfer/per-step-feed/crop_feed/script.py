"""Yield regression from hyperspectral plots; each batch is cut and converted by hand."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
PLOTS, BANDS, BATCH, STEPS = (4000, 256, 128, 120) if SMALL else (40_000, 2048, 1024, 500)

rng = np.random.default_rng(3)
plots = rng.random((PLOTS, BANDS))
tonnes = rng.random(PLOTS)

net = tf.keras.Sequential([
    tf.keras.Input((BANDS,)),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(1),
])
optimizer = tf.keras.optimizers.Adam(1e-3)


@tf.function(jit_compile=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x, training=True)[:, 0] - y))
    gradients = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(gradients, net.trainable_variables))
    return loss


def run(steps):
    for step in range(steps):
        chosen = rng.integers(0, PLOTS, BATCH)
        x = tf.constant(plots[chosen], dtype=tf.float32)
        y = tf.constant(tonnes[chosen], dtype=tf.float32)
        loss = train_step(x, y)
        if step % 100 == 0:
            print(step, float(loss))


run(3)
t0 = time.perf_counter()
run(STEPS)
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
