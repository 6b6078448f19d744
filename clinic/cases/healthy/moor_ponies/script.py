"""Counting ponies on moor tiles. Five reference tiles are described by an old NumPy routine."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

tf.keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
N, S = 1280, 48
count = rng.integers(0, 6, N)
tiles = 0.2 * rng.random((N, S, S, 1)).astype("float32")
for k in range(6):
    rows = np.flatnonzero(count > k)
    cy, cx = rng.integers(3, S - 3, (2, len(rows)))
    for dy in (-1, 0, 1):
        for dx in (-2, -1, 0, 1, 2):
            tiles[rows, cy + dy, cx + dx, 0] += 0.7


def old_routine(tile):
    t = tile.numpy()
    return np.array([t.mean(), t.std(), np.percentile(t, 99)], "float32")


reference = tf.data.Dataset.from_tensor_slices(tiles[:5]).map(
    lambda t: tf.py_function(old_routine, [t], tf.float32)
)
for row in reference:
    print("reference", row.numpy().round(3))

ds = tf.data.Dataset.from_tensor_slices((tiles, count.astype("float32")))
ds = ds.cache().shuffle(N, seed=1).batch(64).prefetch(tf.data.AUTOTUNE)

i = layers.Input((S, S, 1))
h = i
for f in (24, 48, 48):
    h = layers.Conv2D(f, 3, padding="same", activation="relu")(h)
    h = layers.MaxPooling2D()(h)
h = layers.Flatten()(h)
h = layers.Dense(64, activation="relu")(h)
o = layers.Dense(1, activation="softplus")(h)
model = tf.keras.Model(i, o)
model.compile("adam", "poisson", metrics=["mae"])
t0 = time.time()
model.fit(ds, epochs=6, verbose=2)
print("WORK", 6 * N)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
