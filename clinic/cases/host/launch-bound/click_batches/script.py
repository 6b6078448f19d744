"""Clicks from a table in memory, one train_on_batch for each batch."""
import os
import time

import numpy as np
import tensorflow as tf

SMALL = os.environ.get("SLOWTRAIN_SMALL") == "1"
ROWS, BATCH, EPOCHS = (12_800, 128, 2) if SMALL else (153_600, 256, 3)

rng = np.random.default_rng(20)
visits = rng.random((ROWS, 128), dtype="float32")
clicked = rng.integers(0, 2, (ROWS, 1)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((visits, clicked)).batch(BATCH, drop_remainder=True).cache().prefetch(8)

model = tf.keras.Sequential([
    tf.keras.Input((128,)),
    tf.keras.layers.Dense(256, activation="relu"),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True))


def train(epochs):
    for epoch in range(epochs):
        for x, y in data:
            loss = model.train_on_batch(x, y)
        print(epoch, float(loss))


train(1)
t0 = time.perf_counter()
train(EPOCHS)
print("WORK", EPOCHS * ROWS)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
