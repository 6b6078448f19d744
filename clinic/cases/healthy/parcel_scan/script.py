"""Parcel weights from conveyor traces; the decoder of the vendor is Python only."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(68)
N, LENGTH, BATCH = 2560, 60, 32
rng = np.random.default_rng(68)
weights = rng.uniform(0.1, 30.0, N).astype("float32")
blobs = [(rng.normal(w, 2.0, (LENGTH, 8)) * 100).astype("<i2").tobytes() for w in weights]


def decode(indices):
    rows = []
    for i in indices.numpy():
        rows.append(np.frombuffer(blobs[i], "<i2").reshape(LENGTH, 8))
    x = np.stack(rows).astype(np.float32) / 3000.0
    return x, weights[indices.numpy()]


def load(indices):
    x, y = tf.py_function(decode, [indices], (tf.float32, tf.float32))
    x.set_shape((BATCH, LENGTH, 8))
    y.set_shape((BATCH,))
    return x, y


ds = (
    tf.data.Dataset.range(N)
    .shuffle(N, seed=1)
    .batch(BATCH, drop_remainder=True)
    .map(load, num_parallel_calls=2)
    .prefetch(tf.data.AUTOTUNE)
)

model = tf.keras.Sequential([
    tf.keras.Input((LENGTH, 8)),
    tf.keras.layers.GRU(96, return_sequences=True),
    tf.keras.layers.GRU(96),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse")
start = time.perf_counter()
model.fit(ds, epochs=1, verbose=2)
print("wall", time.perf_counter() - start)
