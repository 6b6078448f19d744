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
    sig = (tf.TensorSpec((VOCAB,), tf.float32), tf.TensorSpec((), tf.int32))
    return tf.data.Dataset.from_generator(tickets, output_signature=sig).batch(batch, drop_remainder=True).prefetch(4)


tickets = Tickets(9000, 1)
train = as_dataset(tickets, 96)
model = keras.Sequential([keras.Input((VOCAB,)), keras.layers.Dense(48, activation="relu"),
                          keras.layers.Dropout(0.2), keras.layers.Dense(DESKS)])
model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, epochs=3, verbose=2)
