"""Flea market app: will the buyer answer the seller? Buyer and item ids come as the app's own numbers."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

keras.utils.set_random_seed(44)
BUYERS, ITEMS = 3000, 5000

rng = np.random.default_rng(44)
buyer_numbers = rng.choice(250_000, BUYERS, replace=False)
item_numbers = rng.choice(250_000, ITEMS, replace=False)
taste, style = rng.normal(size=(BUYERS, 4)), rng.normal(size=(ITEMS, 4))
b, i = rng.integers(0, BUYERS, 16_000), rng.integers(0, ITEMS, 16_000)
answered = ((taste[b] * style[i]).sum(1) + rng.normal(0, 0.5, len(b)) > 0).astype("float32")
buyer, item = buyer_numbers[b].astype("int32"), item_numbers[i].astype("int32")


def two_sided(rows_buyer, rows_item, dim=24):
    u, v = keras.Input((), dtype="int32", name="buyer"), keras.Input((), dtype="int32", name="item")
    p = layers.Embedding(rows_buyer, dim)(u)
    q = layers.Embedding(rows_item, dim)(v)
    h = layers.Concatenate()([p * q, p, q])
    h = layers.Dense(32, activation="relu")(h)
    return keras.Model([u, v], layers.Dense(1, activation="sigmoid")(h))


model = two_sided(int(buyer.max()) + 1, int(item.max()) + 1)
model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=["accuracy"])
t0 = time.time()
history = model.fit([buyer, item], answered, batch_size=200, epochs=2, verbose=2)
print("WORK", 2 * len(buyer))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
