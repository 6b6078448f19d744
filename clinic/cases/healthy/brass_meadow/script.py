"""Instrument recognition from log-spectrograms with a plain tf.data chain."""
import time

import numpy as np
import tensorflow as tf


def normalise(x, y):
    x = tf.cast(x, tf.float32) / 255.0
    return x - tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True), y


def brass(n=1600, seed=10):
    g = np.random.default_rng(seed)
    y = g.integers(0, 6, n).astype(np.int64)
    x = g.integers(0, 255, (n, 64, 48, 1), dtype=np.uint8)
    x[np.arange(n), y * 9] = 255
    return x, y


class Band(tf.keras.Model):
    def __init__(self):
        super().__init__()
        L = tf.keras.layers
        self.stack = [L.Conv2D(32, 3, padding="same", activation="relu"), L.MaxPooling2D(),
                      L.Conv2D(64, 3, padding="same", activation="relu"), L.MaxPooling2D(),
                      L.Conv2D(128, 3, padding="same", activation="relu"), L.GlobalAveragePooling2D(), L.Dense(6)]

    def call(self, x, training=False):
        for layer in self.stack:
            x = layer(x)
        return x


if __name__ == "__main__":
    BATCH, EPOCHS = 64, 8
    ds = tf.data.Dataset.from_tensor_slices(brass()).shuffle(1600).batch(BATCH).map(normalise).prefetch(1)
    band = Band()
    band.compile(tf.keras.optimizers.SGD(0.02, momentum=0.9),
                 tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    band.fit(ds.take(2), verbose=0)
    a = time.monotonic()
    band.fit(ds, epochs=EPOCHS, verbose=1)
    print("\nWORK", EPOCHS * 1600)
    print("TRAIN_SECONDS", round(time.monotonic() - a, 3))
