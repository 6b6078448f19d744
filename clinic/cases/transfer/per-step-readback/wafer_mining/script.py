"""Wafer defects with a book of per-sample losses, from which hard samples are drawn more often."""
import time

import keras
import numpy as np
import tensorflow as tf

N, SIDE, KINDS = 4096, 20, 6
BATCH, STEPS = 128, 320


def wafers():
    rng = np.random.default_rng(2)
    y = rng.integers(0, KINDS, N)
    g = np.mgrid[0:SIDE, 0:SIDE].sum(0)[None] % (2 + y[:, None, None]) == 0
    x = g.astype("float32") + rng.normal(0, 0.7, (N, SIDE, SIDE))
    return x[..., None].astype("float32"), y.astype("int32")


class HardnessBook:
    def __init__(self, n):
        self.loss = np.full(n, 2.0)
        self.rng = np.random.default_rng(0)

    def draw(self, k):
        p = self.loss / self.loss.sum()
        return self.rng.choice(len(p), size=k, p=p)

    def update(self, ids, losses):
        for k, i in enumerate(ids):
            self.loss[i] = 0.5 * self.loss[i] + 0.5 * float(losses[k]) + 1e-3


model = keras.Sequential([
    keras.Input((SIDE, SIDE, 1)),
    keras.layers.Conv2D(12, 3, strides=2, activation="relu"),
    keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(KINDS),
])
opt = keras.optimizers.Adam(1e-3)
opt.build(model.trainable_variables)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        per_sample = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        loss = tf.reduce_mean(per_sample)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return per_sample


x, y = wafers()
book = HardnessBook(N)
start = time.perf_counter()
for step in range(STEPS):
    ids = book.draw(BATCH)
    losses = train_step(tf.constant(x[ids]), tf.constant(y[ids]))
    book.update(ids, losses)
    if step % 150 == 0:
        print(step, "mean book loss", round(book.loss.mean(), 4))
elapsed = time.perf_counter() - start
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % elapsed)
