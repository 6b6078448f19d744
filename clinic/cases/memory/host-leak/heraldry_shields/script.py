"""Blazons coats of arms (which division, which charge) and keeps a diary of what its features do meanwhile."""

import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

DIVISIONS, CHARGES, SIDE = 4, 3, 32


def shields(count, seed):
    """Parted fields with a round, square or crossed charge, in random tinctures."""
    rng = np.random.default_rng(seed)
    division, charge = rng.integers(DIVISIONS, size=count), rng.integers(CHARGES, size=count)
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    parts = np.stack([x > 0, y > 0, x > y, (x > 0) ^ (y > 0)])[division]
    dx, dy = rng.uniform(-0.3, 0.3, (2, count, 1, 1))
    u, v = np.abs(x - dx), np.abs(y - dy)
    shapes = np.stack([u**2 + v**2 < 0.16, np.maximum(u, v) < 0.35, np.minimum(u, v) < 0.1])
    mask = shapes[charge, np.arange(count)]
    tincture = rng.random((3, count, 1, 1, 3))
    field = np.where(parts[..., None], tincture[0], tincture[1])
    image = np.where(mask[..., None], tincture[2], field) + rng.normal(0, 0.05, (count, SIDE, SIDE, 3))
    return image.astype("float32"), division, charge


class Diary:
    """What the last feature maps looked like over the whole training."""

    def __init__(self):
        self.entries = []

    def write(self, features):
        self.entries.append(np.array(features, dtype="float64"))

    def mean(self):
        return np.mean([entry.mean(axis=(0, 1, 2)) for entry in self.entries], axis=0)


class Herald(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")
        self.second = layers.Conv2D(48, 3, padding="same", activation="relu")
        self.pool = layers.GlobalMaxPooling2D()
        self.hidden = layers.Dense(64, activation="relu")
        self.division, self.charge = layers.Dense(DIVISIONS), layers.Dense(CHARGES)

    def call(self, image):
        features = self.second(self.first(image))
        h = self.hidden(tf.concat([self.pool(features), tf.reshape(features[:, ::4, ::4], [tf.shape(image)[0], 768])], -1))
        return self.division(h), self.charge(h), features


class College:
    def __init__(self, rate):
        self.herald, self.diary = Herald(), Diary()
        self.optimizer = tf.keras.optimizers.Adam(rate)
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def _lesson(self, image, division, charge):
        with tf.GradientTape() as tape:
            d, c, features = self.herald(image)
            loss = self.loss(division, d) + self.loss(charge, c)
        weights = self.herald.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss, features

    def teach(self, data, steps):
        began = time.perf_counter()
        for step, batch in enumerate(data.take(steps)):
            loss, features = self._lesson(*batch)
            self.diary.write(features)
            if step == 0:
                warm = time.perf_counter()
            if step % 40 == 0:
                print(f"step {step:4d} loss {float(loss):.4f}")
        now = time.perf_counter()
        print(f"trained in {now - began:.2f} s, {(now - warm) / (steps - 1) * 1e3:.1f} ms a step")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=280)
    parser.add_argument("--batch", type=int, default=96)
    options = parser.parse_args()
    tf.keras.utils.set_random_seed(30)
    data = tf.data.Dataset.from_tensor_slices(shields(4000, 30)).repeat().shuffle(1000, seed=1)
    college = College(1e-3)
    college.teach(data.batch(options.batch, drop_remainder=True).prefetch(2), options.steps)
    print("mean feature", college.diary.mean().mean().round(4))
