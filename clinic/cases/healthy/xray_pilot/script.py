"""Pilot run: two epochs of a patch network, validated and saved after each."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(83)


def scans(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.integers(0, 200, (n, 64, 64, 1)).astype("uint8")
    x[y == 1, 10:20, 10:20] += 50
    return x, y.astype("float32")


def as_dataset(data, batch, training):
    ds = tf.data.Dataset.from_tensor_slices(data)
    if training:
        ds = ds.shuffle(len(data[0]), seed=83)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential([
    keras.Input((64, 64, 1)),
    keras.layers.Rescaling(1.0 / 255),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(64, 3, activation="relu"),
    keras.layers.GlobalMaxPooling2D(),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"])
with tempfile.TemporaryDirectory() as d:
    keep = keras.callbacks.ModelCheckpoint(os.path.join(d, "best.keras"), save_best_only=True)
    t0 = time.time()
    model.fit(as_dataset(scans(1200, 1), 32, True), validation_data=as_dataset(scans(96, 2), 48, False),
              epochs=2, callbacks=[keep], verbose=2)
    print("pilot", round(time.time() - t0, 2))
