"""Merchant risk: embeds merchant and terminal ids, adds amounts, predicts chargebacks."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, regularizers


class Params:
    merchants = 240_000
    width = 32
    penalty = 1e-7
    batch = 256
    payments = 256 * 100
    epochs = 2


def payments(p):
    rng = np.random.default_rng(12)
    m = (rng.pareto(1.1, p.payments) * 300).astype("int64") % p.merchants
    amount = rng.lognormal(3, 1, (p.payments, 6)).astype("float32") / 50
    bad = (np.sin(m * 0.7) + amount[:, 0] * 0.2 + rng.normal(0, 0.5, p.payments) > 0.6)
    return m.astype("int32"), amount, bad.astype("float32")


def risk_model(p):
    mid = keras.Input((), dtype="int32", name="merchant")
    amt = keras.Input((6,), name="amount")
    vec = layers.Embedding(p.merchants, p.width, embeddings_regularizer=regularizers.L2(p.penalty))(mid)
    h = layers.Concatenate()([vec, layers.Dense(16, activation="relu")(amt)])
    h = layers.Dense(64, activation="relu")(h)
    return keras.Model([mid, amt], layers.Dense(1, activation="sigmoid")(h))


def main():
    p = Params()
    m, a, y = payments(p)
    ds = (tf.data.Dataset.from_tensor_slices(((m, a), y)).shuffle(len(m)).batch(p.batch).cache().prefetch(4))
    model = risk_model(p)
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=["accuracy"])
    t0 = time.perf_counter()
    model.fit(ds, epochs=p.epochs, verbose=2)
    print(f"{time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
