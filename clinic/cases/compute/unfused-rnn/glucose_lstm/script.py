"""Glucose forecasts by two LSTMs with dropout inside the recurrence."""
import os
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
UNITS, BATCH, EPOCHS = (24, 64, 3) if SMALL else (160, 128, 8)
DROPPED = 0.1

rng = np.random.default_rng(10)
past = rng.random((12 * BATCH, 72, 10), dtype="float32")
next_hour = rng.random((12 * BATCH, 12), dtype="float32")
days = tf.data.Dataset.from_tensor_slices((past, next_hour)).batch(BATCH, drop_remainder=True).cache().prefetch(2)

model = tf.keras.Sequential([
    layers.Input((72, 10)),
    layers.LSTM(UNITS, return_sequences=True, recurrent_dropout=DROPPED),
    layers.LSTM(UNITS // 2, recurrent_dropout=DROPPED),
    layers.Dense(12),
])
model.compile("adam", "mae")
model.fit(days, epochs=1, verbose=2)
t0 = time.perf_counter()
model.fit(days, epochs=EPOCHS, verbose=2)
print("WORK", EPOCHS * len(past))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
