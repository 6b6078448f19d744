"""Kelp cover from multispectral patches; own training loop with cosine schedule and gradient clipping."""
import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers


def patches(n, side, bands, seed):
    rng = np.random.default_rng(seed)
    cover = rng.uniform(0, 1, size=(n, 1)).astype(np.float32)
    mask = rng.uniform(size=(n, side, side, 1)) < cover[:, :, None, None]
    signature = rng.normal(size=bands)
    x = mask * signature + 0.4 * rng.normal(size=(n, side, side, bands))
    return x.astype(np.float32), cover


class Loop:
    def __init__(self, side, bands, steps, lr):
        self.net = Sequential([
            layers.Input((side, side, bands)),
            layers.Conv2D(48, 3, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1, activation="sigmoid"),
        ])
        self.opt = optimizers.Adam(optimizers.schedules.CosineDecay(lr, steps), global_clipnorm=1.0)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(x, training=True) - y))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=150)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--side", type=int, default=32)
    ap.add_argument("--every", type=int, default=50)
    a = ap.parse_args()

    x, y = patches(3200, a.side, 8, seed=2)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(3200).repeat()
    ds = ds.batch(a.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    loop = Loop(a.side, 8, a.steps, 2e-3)
    start = time.time()
    for i, (xb, yb) in enumerate(ds.take(a.steps)):
        loss = loop.step(xb, yb)
        if i % a.every == 0:
            print(f"step {i}: {float(loss):.5f}")
    print("WORK", a.steps * a.batch)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))


if __name__ == "__main__":
    main()
