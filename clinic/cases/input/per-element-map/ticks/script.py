"""Next-return model on a long stream of ticks."""
import os

import keras
import numpy as np
import tensorflow as tf

LOOKBACK = int(os.environ.get("LOOKBACK", 32))
BATCH = 128
FEATURES = 6


def simulate(n):
    rng = np.random.default_rng(99)
    r = rng.standard_normal((n, FEATURES)).astype("float32")
    r[1:, 0] += 0.3 * r[:-1, 1]
    return r


def stream_to_examples(values):
    ds = tf.data.Dataset.from_tensor_slices(values)
    ds = ds.window(LOOKBACK + 1, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(LOOKBACK + 1, drop_remainder=True))
    ds = ds.shuffle(2048)
    ds = ds.map(lambda w: (w[:-1], w[-1, 0]), num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class ReturnNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.conv = keras.layers.Conv1D(16, 4, strides=4, activation="relu")
        self.flat = keras.layers.Flatten()
        self.head = keras.layers.Dense(1)

    def call(self, x):
        return self.head(self.flat(self.conv(x)))[:, 0]


tf.random.set_seed(1)
train = stream_to_examples(simulate(34_000))
net = ReturnNet()
net.compile(keras.optimizers.Adam(1e-3), "mse")
out = net.fit(train, epochs=2, verbose=2)
print("mse", out.history["loss"][-1])
