"""Routes support tickets to one of eight desks: bag of character trigrams, small MLP."""
import random

import numpy as np
import tensorflow as tf
from tensorflow import keras

VOCAB = 4096
DESKS = 8
WORDS = ["invoice", "refund", "login", "password", "shipping", "delay", "broken", "screen", "upgrade",
         "cancel", "payment", "declined", "router", "signal", "contract", "address", "change", "urgent"]


class Tickets:
    def __init__(self, n, seed):
        r = random.Random(seed)
        self.rows = []
        for _ in range(n):
            desk = r.randrange(DESKS)
            words = [r.choice(WORDS[desk * 2:desk * 2 + 4]) for _ in range(12)] + [r.choice(WORDS) for _ in range(18)]
            r.shuffle(words)
            self.rows.append((" ".join(words), desk))

    def featurise(self, text):
        vec = np.zeros(VOCAB, "float32")
        for i in range(len(text) - 2):
            a, b, c = text[i:i + 3].encode()
            vec[(a * 961 + b * 31 + c) % VOCAB] += 1.0
        return vec

    def __call__(self):
        order = np.random.permutation(len(self.rows))
        for k in order:
            text, desk = self.rows[k]
            yield self.featurise(text), desk


def as_dataset(tickets, batch):
    texts, desks = zip(*tickets.rows)

    def trigrams(text, desk):
        ch = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=400), tf.int32)
        n = tf.strings.length(text)[:, None]
        code = (ch[:, :-2] * 961 + ch[:, 1:-1] * 31 + ch[:, 2:]) % VOCAB
        real = tf.cast(tf.range(398)[None, :] < n - 2, tf.float32)
        return tf.math.bincount(code, weights=real, minlength=VOCAB, maxlength=VOCAB, axis=-1), desk

    ds = tf.data.Dataset.from_tensor_slices((list(texts), np.array(desks, "int32"))).shuffle(len(texts))
    return ds.batch(batch, drop_remainder=True).map(trigrams, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)


tickets = Tickets(9000, 1)
train = as_dataset(tickets, 96)
model = keras.Sequential([keras.Input((VOCAB,)), keras.layers.Dense(48, activation="relu"),
                          keras.layers.Dropout(0.2), keras.layers.Dense(DESKS)])
model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, epochs=3, verbose=2)
