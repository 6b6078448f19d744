"""Parish register entries (baptism, marriage, burial, ...) as byte sequences; two attention blocks."""
import time

import keras
import numpy as np
from keras import layers

SYMBOLS, LENGTH, KINDS = 64, 96, 7


def entries(n, seed=41):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, KINDS, n)
    text = rng.integers(1, SYMBOLS, size=(n, LENGTH))
    motif = rng.integers(1, SYMBOLS, size=(KINDS, 6))
    for row, k in zip(text, kind):
        at = rng.integers(0, LENGTH - 6)
        row[at:at + 6] = motif[k]
    return text.astype("int32"), kind


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="positions")

    def call(self, x):
        return x + self.table


def attention_block(x, dim, heads):
    h = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(heads, dim // heads)(h, h)])
    h = layers.LayerNormalization()(x)
    h = layers.Dense(4 * dim, activation="relu")(h)
    return layers.Add()([x, layers.Dense(dim)(h)])


def reader(dim=96, heads=4):
    ids = keras.Input((LENGTH,), dtype="int32")
    x = Positions()(layers.Embedding(SYMBOLS, dim)(ids))
    for _ in range(2):
        x = attention_block(x, dim, heads)
    x = layers.GlobalMaxPooling1D()(x)
    return keras.Model(ids, layers.Dense(KINDS, activation="softmax")(x))


if __name__ == "__main__":
    keras.utils.set_random_seed(11)
    text, kind = entries(2560)
    model = reader()
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    start = time.time()
    model.fit(text, kind, batch_size=32, epochs=1, verbose=2)
    print("WORK", len(text))
    print("TRAIN_SECONDS %.3f" % (time.time() - start))
