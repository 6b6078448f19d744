"""Yield class from a season of farm notes: token sequences through a small transformer."""
import csv
import os
import tempfile

import keras
import numpy as np
from keras import layers

VOCAB, LENGTH = 2000, 64


class Diary(keras.callbacks.Callback):
    """Writes a line to a CSV file now and then."""

    def __init__(self, path, every=25):
        super().__init__()
        self.path, self.every, self.seen = path, every, 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every == 0:
            with open(self.path, "a", newline="") as handle:
                csv.writer(handle).writerow([self.seen, logs["loss"]])


def encoder(x, heads, width):
    a = layers.MultiHeadAttention(heads, width // heads)(x, x)
    x = layers.LayerNormalization()(x + a)
    f = layers.Dense(4 * width, activation="relu")(x)
    f = layers.Dense(width)(f)
    return layers.LayerNormalization()(x + f)


def build(width=96):
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(VOCAB, width)(tokens)
    for _ in range(2):
        x = encoder(x, 4, width)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, layers.Dense(3, activation="softmax")(x))


def notes(count):
    rng = np.random.default_rng(40)
    label = rng.integers(0, 3, count)
    tokens = rng.integers(1, VOCAB, (count, LENGTH))
    tokens[:, ::7] = 1 + label[:, None] * 5 + rng.integers(0, 5, (count, (LENGTH + 6) // 7))
    return tokens.astype("int32"), label.astype("int32")


if __name__ == "__main__":
    tokens, label = notes(3200)
    model = build()
    model.compile(keras.optimizers.Adam(5e-4), "sparse_categorical_crossentropy", metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "diary.csv")
        model.fit(tokens, label, batch_size=32, epochs=2, verbose=2, callbacks=[Diary(path)])
        print(open(path).read())
