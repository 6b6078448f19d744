"""Filling the gaps of a rain-gauge network.

256 gauges, each linked to all others by a distance kernel (a full matrix: rain
knows no neighbourhood list).  Some gauges of an hour are hidden and the net has
to give their readings back.
"""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

GAUGES = 256
FEATURES = 6       # rain now and in the three hours before, temperature, visible?
HIDDEN = 64
BATCH = 32
STEPS = 180


class KernelConv(layers.Layer):
    """relu(K x W1 + x W2 + b): what the others see, and what I see."""

    def __init__(self, kernel, units, **kwargs):
        super().__init__(**kwargs)
        self.kernel_matrix = tf.constant(kernel, dtype=tf.float32)
        self.others = layers.Dense(units, use_bias=False)
        self.own = layers.Dense(units)

    def build(self, input_shape):
        self.others.build(input_shape)
        self.own.build(input_shape)

    def call(self, x):
        spread = tf.matmul(self.kernel_matrix, self.others(x))
        return tf.nn.relu(spread + self.own(x))

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:-1]) + (self.own.units,)


class Climate:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.where = self.rng.uniform(0.0, 1.0, size=(GAUGES, 2))
        gap = self.where[:, None, :] - self.where[None, :, :]
        kernel = np.exp(-(gap ** 2).sum(axis=-1) / (2 * 0.15 ** 2))
        self.kernel = (kernel / kernel.sum(axis=1, keepdims=True)).astype("float32")

    def hours(self, n):
        """Cells of rain drifting over the region."""
        cells = self.rng.uniform(-0.2, 1.2, size=(n, 3, 2))
        wind = self.rng.normal(0.0, 0.08, size=(n, 1, 2))
        rain = []
        for back in range(4):
            gap = self.where[None, :, None, :] - (cells - back * wind)[:, None, :, :]
            rain.append(np.exp(-(gap ** 2).sum(axis=-1) / 0.02).sum(axis=-1))
        rain = np.stack(rain, axis=-1)
        warmth = self.rng.normal(size=(n, 1, 1)) + 0.1 * self.rng.normal(size=(n, GAUGES, 1))
        visible = (self.rng.random((n, GAUGES, 1)) > 0.3).astype("float32")
        x = np.concatenate([rain * visible, warmth, visible], axis=-1)
        return x.astype("float32"), rain[..., :1].astype("float32"), 1.0 - visible[..., 0]


def build(kernel):
    x = inp = keras.Input((GAUGES, FEATURES))
    for _ in range(4):
        x = KernelConv(kernel, HIDDEN)(x)
    return keras.Model(inp, layers.Dense(1)(x))


def main():
    keras.utils.set_random_seed(90)
    climate = Climate(90)
    x, y, hidden = climate.hours(1600)
    model = build(climate.kernel)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")

    losses = []
    begin = time.perf_counter()
    for step in range(STEPS):
        pick = climate.rng.integers(0, len(x), size=BATCH)
        # only the hidden gauges count
        losses.append(model.train_on_batch(x[pick], y[pick], sample_weight=hidden[pick]))
        if (step + 1) % 45 == 0:
            print(step + 1, "mse of hidden gauges (weighted)", np.mean([np.ravel(v)[0] for v in losses[-45:]]))
    seconds = time.perf_counter() - begin

    print(f"TRAIN_SECONDS {seconds:.2f}")


if __name__ == "__main__":
    main()
