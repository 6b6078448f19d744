"""Reads pressed wedge signs. Every tablet is pressed afresh from its own number, so nothing is stored."""

import math
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 40
SIGNS = 12
BATCH = 48
TABLETS = BATCH * 120

_pattern = np.random.default_rng(5)
# (sign, wedge, [row, column, angle, length])
WEDGES = np.stack(
    [
        _pattern.uniform(8, 32, (SIGNS, 7)),
        _pattern.uniform(8, 32, (SIGNS, 7)),
        _pattern.choice([0.0, math.pi / 4, math.pi / 2], (SIGNS, 7)),
        _pattern.uniform(8, 16, (SIGNS, 7)),
    ],
    axis=-1,
)


class Stylus:
    """Knows how a wedge falls into the clay."""

    def __init__(self, width=2.2, points=20):
        self.width = width
        self.points = points

    def wedge(self, clay, row, column, angle, length):
        for k in range(self.points):
            part = k / (self.points - 1)
            y = row + math.sin(angle) * length * part
            x = column + math.cos(angle) * length * part
            radius = self.width * (1.0 - 0.7 * part)
            reach = int(math.ceil(radius))
            for i in range(int(y) - reach, int(y) + reach + 1):
                for j in range(int(x) - reach, int(x) + reach + 1):
                    if 0 <= i < SIDE and 0 <= j < SIDE:
                        depth = 1.0 - math.hypot(i - y, j - x) / radius
                        if depth > clay[i, j]:
                            clay[i, j] = depth
        return clay


class Tablets:
    def __init__(self, stylus):
        self.stylus = stylus

    def _press(self, number):
        rng = np.random.default_rng(int(number))
        sign = int(rng.integers(SIGNS))
        clay = np.zeros((SIDE, SIDE), np.float32)
        for row, column, angle, length in WEDGES[sign]:
            dy, dx, turn = rng.normal(0.0, (1.5, 1.5, 0.08))
            clay = self.stylus.wedge(clay, row + dy, column + dx, angle + turn, length)
        clay += rng.normal(0, 0.08, clay.shape).astype("float32")
        return clay[..., None], np.int32(sign)

    def _tensors(self, number):
        clay, sign = tf.numpy_function(self._press, [number], (tf.float32, tf.int32))
        clay.set_shape((SIDE, SIDE, 1))
        sign.set_shape(())
        return clay, sign

    def _lit(self, clay):
        down, right = clay[1:, :-1] - clay[:-1, :-1], clay[:-1, 1:] - clay[:-1, :-1]
        return tf.concat([clay[:-1, :-1], down, right], axis=-1)

    def prepare(self, number):
        clay, sign = self._tensors(number)
        return self._lit(clay), sign

    def stream(self):
        numbers = tf.data.Dataset.range(TABLETS)
        return numbers.map(self.prepare, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def reader():
    inputs = keras.Input((SIDE - 1, SIDE - 1, 3))
    x = inputs
    for width in (16, 32, 48):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(96, activation="relu")(layers.Flatten()(x))
    return keras.Model(inputs, layers.Dense(SIGNS)(x))


def main():
    keras.utils.set_random_seed(3)
    model = reader()
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    began = time.perf_counter()
    model.fit(Tablets(Stylus()).stream(), epochs=1, verbose=2)
    took = time.perf_counter() - began
    print(f"{TABLETS} tablets in {took:.2f} s, {took / (TABLETS / BATCH) * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
