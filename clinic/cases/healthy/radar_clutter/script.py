"""Clutter suppression for range-Doppler maps; noise is drawn in NumPy while the network trains."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

RANGE, DOPPLER = 64, 64
rng = np.random.default_rng(12)


def speckle(shape):
    return rng.standard_normal(shape, dtype=np.float32)


def noisy(clean):
    noise = tf.numpy_function(speckle, [tf.shape(clean)], tf.float32)
    noise.set_shape(clean.shape)
    return clean + 0.3 * noise, clean


def scenes(n):
    maps = np.zeros((n, RANGE, DOPPLER, 1), np.float32)
    for k in range(n):
        for _ in range(4):
            r, d = rng.integers(4, 60, 2)
            maps[k, r - 2:r + 3, d - 1:d + 2] += rng.uniform(0.5, 2)
    return maps


def dataset(n, batch):
    ds = tf.data.Dataset.from_tensor_slices(scenes(n)).cache().shuffle(n).repeat()
    return ds.batch(batch, drop_remainder=True).map(noisy).prefetch(3)


class Suppressor(tf.keras.Model):
    def __init__(self, width=40, depth=4):
        super().__init__()
        self.first = layers.Conv2D(width, 3, padding="same", activation="relu")
        self.middle = [layers.Conv2D(width, 3, padding="same", activation="relu") for _ in range(depth)]
        self.last = layers.Conv2D(1, 3, padding="same")

    def call(self, x):
        h = self.first(x)
        for m in self.middle:
            h = m(h)
        return x - self.last(h)


def main(steps=30, batch=12):
    net = Suppressor()
    opt = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x) - y))
        g = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(g, net.trainable_variables))
        return loss

    history, maps = [], iter(dataset(400, batch))
    begin = time.perf_counter()
    for i in range(steps):
        x, y = next(maps)
        history.append(step(x, y))
        if (i + 1) % 10 == 0:
            print(i + 1, "mse", float(tf.add_n(history[-10:])) / 10)
    print("WORK", steps * batch)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


main()
