"""Arsenic in well water above the limit? Weighted cross entropy of our own plus a smoothness penalty.

Trains until the mean loss of a pass is under 0.25, at most 140 passes.
"""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(90)
N, BATCH, PASSES, GOAL = 4096, 64, 140, 0.25


def wells():
    rng = np.random.default_rng(90)
    x = rng.standard_t(3, size=(N, 16)).astype("float32")
    x[rng.integers(0, N, 12)] *= 30  # digits lost in the lab's spreadsheet
    y = (x[:, 0] + 0.5 * x[:, 1] - np.abs(x[:, 2]) > -0.3).astype("float32")
    return x, y


def weighted_bce(y, p, up=1.5):
    return -tf.reduce_mean(up * y * tf.math.log(p) + (1.0 - y) * tf.math.log(1.0 - p))


class Wells(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.h1 = tf.keras.layers.Dense(128, activation="relu")
        self.h2 = tf.keras.layers.Dense(128, activation="relu")
        self.out = tf.keras.layers.Dense(1, activation="sigmoid")

    def call(self, x):
        return self.out(self.h2(self.h1(x)))[:, 0]


model = Wells()
opt = tf.keras.optimizers.Adam(1e-3)


@tf.function
def update(x, y):
    with tf.GradientTape() as tape:
        p = model(x)
        shaken = model(x + 0.05 * tf.random.normal(tf.shape(x), seed=1))
        loss = weighted_bce(y, p) + 0.1 * tf.reduce_mean(tf.square(p - shaken))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


x, y = wells()
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(N, seed=4).batch(BATCH, drop_remainder=True).prefetch(2)
t0 = time.time()
done = 0
for p in range(PASSES):
    losses = []
    for bx, by in ds:
        losses.append(update(bx, by))
        done += BATCH
    mean = float(tf.reduce_mean(losses))
    if p % 20 == 0:
        print("pass", p, "loss", round(mean, 4))
    if mean < GOAL:
        break
print("passes", p + 1, "loss", round(mean, 4))
print("WORK", done)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
