"""Household meter table, everything in memory, big batches."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

tf.keras.utils.set_random_seed(52)
ROWS = 131072
rng = np.random.default_rng(52)
table = {
    "usage": rng.normal(size=(ROWS, 24)).astype("float32"),
    "region": rng.integers(0, 40, (ROWS, 1)),
    "tariff": rng.integers(0, 7, (ROWS, 1)),
}
bill = (table["usage"].sum(1) * 0.1 + table["tariff"][:, 0] + 0.05 * table["region"][:, 0]).astype("float32")

usage = Input((24,), name="usage")
region = Input((1,), name="region", dtype="int64")
tariff = Input((1,), name="tariff", dtype="int64")
parts = [
    usage,
    layers.Flatten()(layers.Embedding(40, 8)(region)),
    layers.Flatten()(layers.Embedding(7, 4)(tariff)),
]
h = layers.Concatenate()(parts)
for _ in range(3):
    h = layers.Dense(256, activation="relu")(h)
model = Model([usage, region, tariff], layers.Dense(1)(h))
model.compile("adam", "mse", metrics=["mae"])
t0 = time.time()
model.fit(table, bill, batch_size=4096, epochs=6, verbose=2)
print("took", round(time.time() - t0, 2))
