#!/usr/bin/env python
"""How ripe is the wheel?  Regression on near-infrared scans; the per-wheel errors go into a table."""
import numpy as np
import tensorflow as tf

WHEELS, BANDS = 20480, 120
BATCH = 256
EPOCHS = 2

rng = np.random.default_rng(31)
age = rng.uniform(1, 36, WHEELS).astype("float32")
bands = np.linspace(0, 1, BANDS, dtype="float32")
scans = np.exp(-((bands[None] - age[:, None] / 40) ** 2) * 30).astype("float32")
scans += rng.normal(0, 0.05, scans.shape).astype("float32")

order = np.arange(WHEELS, dtype="int64")
wheels = (
    tf.data.Dataset.from_tensor_slices((order, scans, age / 36))
    .cache()
    .shuffle(2048, seed=4)
    .batch(BATCH, drop_remainder=True)
    .prefetch(tf.data.AUTOTUNE)
)

net = tf.keras.Sequential([
    tf.keras.Input((BANDS,)),
    tf.keras.layers.Dense(256, activation="tanh"),
    tf.keras.layers.Dense(256, activation="tanh"),
    tf.keras.layers.Dense(1),
])
adam = tf.keras.optimizers.Adam(1e-3)


@tf.function
def fit_batch(x, y):
    with tf.GradientTape() as tape:
        error = tf.squeeze(net(x, training=True), 1) - y
        loss = tf.reduce_mean(tf.square(error))
    adam.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss, error


table = np.zeros((EPOCHS, WHEELS), "float32")
for epoch in range(EPOCHS):
    kept = []
    total = 0.0
    for which, x, y in wheels:
        loss, error = fit_batch(x, y)
        for wheel, miss in zip(which, error):
            table[epoch, int(wheel)] = float(miss)
        total += loss
    print(f"epoch {epoch + 1}: mse {float(total) / (WHEELS // BATCH):.5f}")

worst = np.abs(table[-1]).argsort()[-5:]
print("hardest wheels:", worst.tolist())
