"""Surrogate for a plume simulator: wide one-layer network with a blended activation."""
import math
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

C = math.sqrt(2.0 / math.pi)


def smooth_gate(x):
    return 0.5 * x * (1.0 + tf.tanh(C * (x + 0.044715 * x * x * x)))


def self_gate(x):
    return x * tf.sigmoid(x)


def soft_sign(x):
    return x / (1.0 + tf.abs(x))


def bent(x):
    return 0.5 * (tf.sqrt(x * x + 1.0) - 1.0) + x


class Blend(layers.Layer):
    """Weighted sum of several activations (weights from the ablation, fixed)."""

    recipe = ((smooth_gate, 0.35), (self_gate, 0.25), (soft_sign, 0.25), (bent, 0.15))

    def call(self, x):
        total = tf.zeros_like(x)
        for fn, weight in self.recipe:
            total = total + weight * fn(x)
        spread = tf.abs(total - x)
        return total * (1.0 - 0.1 * spread / (1.0 + spread))


def plume(n=67584, seed=19):
    rng = np.random.default_rng(seed)
    p = rng.uniform(-1, 1, (n, 10)).astype("float32")
    r2 = (p[:, :2] ** 2).sum(1)
    dose = np.exp(-3 * r2) * (1 + p[:, 2])
    drift = np.sin(2 * p[:, 3]) * p[:, 4] - 0.5 * p[:, 5]
    return p, np.stack([dose, drift, dose * drift], 1).astype("float32")


def surrogate(width=512):
    net = keras.Sequential([
        layers.Input((10,)),
        layers.Dense(width, use_bias=False),
        Blend(),
        layers.Dense(3),
    ])
    net.compile(keras.optimizers.Adam(2e-3), "mse")
    return net


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    x, y = plume()
    net = surrogate()
    t0 = time.time()
    net.fit(x, y, batch_size=1536, epochs=3, verbose=2)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))
