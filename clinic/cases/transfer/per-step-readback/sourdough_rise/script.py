"""Dough height two hours ahead from proofing-box curves; curves that are forecast badly are drawn more often."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

LENGTH, CHANNELS, BATCH, STEPS = 96, 4, 128, 220

rng = np.random.default_rng(12)


def proofing_runs(n):
    t = np.linspace(0, 1, LENGTH)[None, :]
    speed = rng.uniform(2, 9, size=(n, 1))
    peak = rng.uniform(0.4, 1.0, size=(n, 1))
    height = peak / (1 + np.exp(-speed * (t - 0.5)))
    temp = 24 + rng.normal(0, 1, size=(n, 1)) + 0.3 * np.sin(6 * t)
    humid = 0.7 + 0.05 * rng.normal(size=(n, LENGTH))
    curves = np.stack([height, temp / 30, humid, np.gradient(height, axis=1) * 10], -1)
    target = peak[:, 0] / (1 + np.exp(-speed[:, 0] * 0.7)) + 0.02 * rng.normal(size=n)
    return curves.astype("float32"), target.astype("float32")


class RiseNet(keras.Model):
    def __init__(self, width=48):
        super().__init__()
        self.blocks = [layers.Conv1D(width, 5, padding="same", activation="relu") for _ in range(3)]
        self.pool = layers.GlobalAveragePooling1D()
        self.head = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(1)])

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return tf.squeeze(self.head(self.pool(x)), -1)


curves, heights = proofing_runs(6000)
all_curves, all_heights = tf.constant(curves), tf.constant(heights)
net = RiseNet()
optimizer = keras.optimizers.Adam(2e-3)
difficulty = np.ones(len(curves), "float32")


@tf.function
def update(rows):
    x, y = tf.gather(all_curves, rows), tf.gather(all_heights, rows)
    with tf.GradientTape() as tape:
        error = tf.square(net(x, training=True) - y)
        loss = tf.reduce_mean(error)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return loss, error


start = time.time()
for step in range(STEPS):
    p = difficulty / difficulty.sum()
    rows = tf.constant(rng.choice(len(curves), BATCH, p=p), tf.int32)
    loss, error = update(rows)
    for row, e in zip(rows, error):
        difficulty[int(row)] = 0.05 + 0.8 * difficulty[int(row)] + 0.2 * float(e)
    if step % 80 == 0:
        print(f"{step:4d} loss {float(loss):.5f}  hardest curve {difficulty.argmax()}")

print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.time() - start))
