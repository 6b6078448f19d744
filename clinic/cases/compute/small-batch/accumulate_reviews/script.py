"""Sentiment of synthetic reviews with a bag-of-n-grams conv net; effective batch of 96 as in the paper."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

VOCAB, LENGTH = 3000, 40


def reviews(n, seed=0):
    r = np.random.default_rng(seed)
    tone = r.normal(size=VOCAB)
    toks = r.integers(1, VOCAB, (n, LENGTH))
    y = (tone[toks].sum(1) > 0).astype("int32")
    return toks.astype("int32"), y


class Reader(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embed = tf.keras.layers.Embedding(VOCAB, 16)
        self.grams = [tf.keras.layers.Conv1D(16, k, activation="relu") for k in (2, 3)]
        self.pool = tf.keras.layers.GlobalMaxPooling1D()
        self.head = tf.keras.layers.Dense(1)

    def call(self, t):
        e = self.embed(t)
        return self.head(tf.concat([self.pool(g(e)) for g in self.grams], -1))


def recipe(effective=96, fits=4):
    opt = tf.keras.optimizers.Adam(2e-3, gradient_accumulation_steps=effective // fits)
    return opt, fits


x, y = reviews(4800)
opt, rows = recipe()
model = Reader()
model.compile(opt, tf.keras.losses.BinaryCrossentropy(from_logits=True))
pipe = tf.data.Dataset.from_tensor_slices((x, y[:, None])).cache().shuffle(4800, seed=1)
pipe = pipe.batch(rows, drop_remainder=True).prefetch(8)
model.fit(pipe, epochs=3, verbose=2)
