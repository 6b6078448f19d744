"""Bearing vibration: a one-dimensional convolution written as a Python loop over time."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
LENGTH, BATCH, EPOCHS = (64, 64, 3) if SMALL else (128, 64, 10)


class TimeFilter(tf.keras.layers.Layer):
    def __init__(self, filters, width):
        super().__init__()
        self.filters, self.width = filters, width

    def build(self, shape):
        self.kernel = self.add_weight(shape=(self.width * shape[-1], self.filters), initializer="glorot_uniform")

    def call(self, x):
        found = []
        for start in range(x.shape[1] - self.width + 1):
            piece = tf.reshape(x[:, start:start + self.width, :], (-1, self.kernel.shape[0]))
            found.append(tf.matmul(piece, self.kernel))
        return tf.nn.relu(tf.stack(found, axis=1))


rng = np.random.default_rng(14)
shakes = rng.standard_normal((40 * BATCH, LENGTH, 4), dtype="float32")
worn = rng.random((40 * BATCH, 1), dtype="float32")
data = tf.data.Dataset.from_tensor_slices((shakes, worn)).batch(BATCH, drop_remainder=True).cache().prefetch(4)

model = tf.keras.Sequential([
    tf.keras.Input((LENGTH, 4)),
    TimeFilter(24, 9),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.fit(data, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(shakes))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
