"""Bearing vibration: a one-dimensional convolution as the layer that is there for it."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
LENGTH, BATCH, EPOCHS = (64, 64, 3) if SMALL else (128, 64, 10)


rng = np.random.default_rng(14)
shakes = rng.standard_normal((40 * BATCH, LENGTH, 4), dtype="float32")
worn = rng.random((40 * BATCH, 1), dtype="float32")
data = tf.data.Dataset.from_tensor_slices((shakes, worn)).batch(BATCH, drop_remainder=True).cache().prefetch(4)

model = tf.keras.Sequential([
    tf.keras.Input((LENGTH, 4)),
    tf.keras.layers.Conv1D(24, 9, activation="relu", use_bias=False),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(1),
])
model.compile("adam", "mse")
model.fit(data, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(data, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(shakes))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
