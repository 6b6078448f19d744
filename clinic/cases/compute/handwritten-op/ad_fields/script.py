"""Click prediction with pairwise field interactions."""
import time

import keras
import numpy as np
import tensorflow as tf

FIELDS, VOCAB, DIM = 18, 50, 12


class PairwiseDots(keras.layers.Layer):
    """Dot product of every pair of field embeddings."""

    def call(self, emb):
        dots = []
        for i in range(FIELDS):
            for j in range(i + 1, FIELDS):
                dots.append(tf.reduce_sum(emb[:, i, :] * emb[:, j, :], axis=-1))
        return tf.stack(dots, axis=-1)

    def compute_output_shape(self, shape):
        return (shape[0], FIELDS * (FIELDS - 1) // 2)


class ClickModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.offset = np.arange(FIELDS, dtype="int32") * VOCAB
        self.table = keras.layers.Embedding(FIELDS * VOCAB, DIM)
        self.pairs = PairwiseDots()
        self.hidden = keras.layers.Dense(64, activation="relu")
        self.out = keras.layers.Dense(1, activation="sigmoid")

    def call(self, ids):
        emb = self.table(ids + self.offset)
        h = self.hidden(tf.concat([self.pairs(emb), tf.reshape(emb, (-1, FIELDS * DIM))], -1))
        return self.out(h)


def impressions(n):
    rng = np.random.default_rng(33)
    ids = rng.integers(0, VOCAB, (n, FIELDS)).astype("int32")
    logit = (ids[:, 0] % 5 == ids[:, 1] % 5) * 1.5 + (ids[:, 3] > 30) * (ids[:, 4] < 20) * 2.0 - 1.5
    return ids, (rng.random(n) < 1 / (1 + np.exp(-logit))).astype("float32")[:, None]


ids, clicks = impressions(12800)
model = ClickModel()
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy", metrics=["AUC"])
start = time.perf_counter()
model.fit(ids, clicks, batch_size=128, epochs=2, verbose=2)
spent = time.perf_counter() - start
print("ctr", clicks.mean(), "predicted", float(model.predict(ids[:2048], verbose=0).mean()))
print("WORK", len(ids) * 2)
print("TRAIN_SECONDS %.3f" % spent)
