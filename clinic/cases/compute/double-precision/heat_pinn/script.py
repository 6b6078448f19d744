"""Heat conduction by a dense network that computes in float64."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
WIDTH, BATCH, EPOCHS = (64, 512, 4) if SMALL else (1024, 32_768, 12)
tf.keras.backend.set_floatx("float64")

rng = np.random.default_rng(12)
points = rng.random((8 * BATCH, 3)).astype(tf.keras.backend.floatx())
heat = np.sin(points.sum(axis=1, keepdims=True))
data = tf.data.Dataset.from_tensor_slices((points, heat)).batch(BATCH, drop_remainder=True).cache().prefetch(2)

layers = [tf.keras.layers.Dense(WIDTH, activation="tanh") for _ in range(5)]
model = tf.keras.Sequential([tf.keras.Input((3,)), *layers, tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.Adam(1e-3), "mse")
model.fit(data, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(points))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
