"""Will the guest extend the rental? Field-pair model over categorical booking data."""
import time

import keras
import numpy as np
import tensorflow as tf

FIELDS = 16
CARD = 60
DIM = 10


def bookings(n, seed=1):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, CARD, size=(n, FIELDS)).astype("int32")
    hidden = rng.normal(size=(FIELDS, CARD, 3))
    v = hidden[np.arange(FIELDS)[None], codes]
    score = (v[:, 0] * v[:, 3]).sum(1) + (v[:, 2] * v[:, 7]).sum(1) + v[:, 5, 0]
    return codes, (score + rng.normal(size=n) > 0).astype("float32")[:, None]


class FieldEmbedding(keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(FIELDS * CARD, DIM), initializer="glorot_uniform", name="table")

    def call(self, codes):
        return tf.gather(self.table, codes + tf.range(FIELDS) * CARD)


class PairProducts(keras.layers.Layer):
    """Inner product of every pair of fields."""

    def call(self, e):
        pairs = []
        for i in range(FIELDS):
            for j in range(i + 1, FIELDS):
                pairs.append(tf.reduce_sum(e[:, i] * e[:, j], axis=-1))
        return tf.stack(pairs, axis=1)


def build():
    codes = keras.Input((FIELDS,), dtype="int32")
    e = FieldEmbedding()(codes)
    p = PairProducts()(e)
    h = keras.layers.Concatenate()([keras.layers.Flatten()(e), p])
    h = keras.layers.Dense(192, activation="relu")(h)
    h = keras.layers.Dense(96, activation="relu")(h)
    return keras.Model(codes, keras.layers.Dense(1, activation="sigmoid")(h))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    codes, stays = bookings(51200)
    model = build()
    model.compile(keras.optimizers.Adam(2e-3), "binary_crossentropy", metrics=["accuracy"])
    start = time.time()
    model.fit(codes, stays, batch_size=512, epochs=4, verbose=2)
    print("WORK", 4 * len(codes))
    print("TRAIN_SECONDS %.3f" % (time.time() - start))
