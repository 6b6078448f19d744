"""Licence-plate style sequence tagger (transformer block), validated on a few samples after each epoch."""
import argparse
import time

import numpy as np
import keras
from keras import layers, ops

p = argparse.ArgumentParser()
p.add_argument("--n", type=int, default=2560)
p.add_argument("--len", type=int, default=64)
p.add_argument("--dim", type=int, default=128)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--epochs", type=int, default=5)
a = p.parse_args()


class Positions(layers.Layer):
    def build(self, shape):
        self.p = self.add_weight(shape=shape[1:], initializer="uniform", name="p")

    def call(self, x):
        return x + self.p


def booth(dim, length):
    inp = keras.Input((length,), dtype="int32")
    x = Positions()(layers.Embedding(40, dim)(inp))
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, dim // 4)(x, x))
        y = layers.Dense(4 * dim, activation="relu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(dim)(y))
    return keras.Model(inp, layers.Dense(40)(x))


g = np.random.default_rng(20)
x = g.integers(0, 40, (a.n, a.len)).astype("int32")
y = np.roll(x, 1, axis=1)
m = booth(a.dim, a.len)
m.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
m.fit(x[:128], y[:128], batch_size=a.batch, verbose=0)
t = time.perf_counter()
m.fit(x, y, batch_size=a.batch, epochs=a.epochs, validation_data=(x[:64], y[:64]), verbose=2,
      callbacks=[keras.callbacks.EarlyStopping(patience=5), keras.callbacks.TerminateOnNaN()])
t = time.perf_counter() - t
print("WORK", a.n * a.epochs)
print("TRAIN_SECONDS", round(t, 3))
