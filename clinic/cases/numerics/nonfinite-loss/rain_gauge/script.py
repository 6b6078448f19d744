"""Mixture density network for rainfall amounts."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(41)
K = 4


class MDN(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = [keras.layers.Dense(384, activation="relu") for _ in range(4)]
        self.params = keras.layers.Dense(3 * K)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.params(x)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        logits, mean, raw = tf.split(y_pred, 3, axis=-1)
        weight = tf.nn.softmax(logits)
        sigma = tf.nn.softplus(raw)
        z = (y - mean) / sigma
        density = tf.exp(-0.5 * z * z) / (sigma * 2.5066)
        return -tf.reduce_mean(tf.math.log(tf.reduce_sum(weight * density, -1)))


def gauges(n=24000):
    rng = np.random.default_rng(41)
    x = rng.normal(size=(n, 12)).astype("float32")
    wet = rng.random(n) < 0.6
    amount = np.where(wet, rng.gamma(2.0, 0.2, n) + 0.3 * np.abs(x[:, 0]), 0.5 * rng.random(n))
    storms = np.arange(n) > 6000
    amount = np.where(storms & (rng.random(n) < 0.01), amount * 40 + 60, amount)
    return x, amount.astype("float32")[:, None]


x, y = gauges()
model = MDN()
model.compile(optimizer=keras.optimizers.Adam(5e-4))
t0 = time.time()
model.fit(x, y, batch_size=200, epochs=4, shuffle=False, verbose=2)
print("fit", round(time.time() - t0, 2))
