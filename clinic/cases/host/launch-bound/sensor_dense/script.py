"""Sensor drift: a small dense net, batches of 32 rows, plain fit."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
ROWS, EPOCHS = (6400, 3) if SMALL else (19_200, 3)

rng = np.random.default_rng(5)
readings = rng.random((ROWS, 40), dtype="float32")
drift = rng.random(ROWS, dtype="float32")
rows = tf.data.Dataset.from_tensor_slices((readings, drift)).batch(32, drop_remainder=True).cache().prefetch(16)

model = tf.keras.Sequential([tf.keras.Input((40,))])
for width in (96, 96, 64, 32):
    model.add(tf.keras.layers.Dense(width, activation="tanh"))
model.add(tf.keras.layers.Dense(1))
model.compile("adam", "mse")
model.fit(rows, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(rows, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * ROWS)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
