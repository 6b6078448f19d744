"""Character language model: two short epochs of a small causal transformer with a checkpoint and a validation each."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CONTEXT, VOCAB, WIDTH, BATCH = 96, 64, 128, 32


class Block(layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.attn = layers.MultiHeadAttention(heads, width // heads)
        self.up, self.down = layers.Dense(4 * width, activation="relu"), layers.Dense(width)

    def build(self, shape):
        self.attn.build(shape, shape)
        self.n1.build(shape); self.n2.build(shape)
        self.up.build(shape); self.down.build((*shape[:-1], 4 * shape[-1]))

    def call(self, x):
        h = self.n1(x)
        x = x + self.attn(h, h, use_causal_mask=True)
        return x + self.down(self.up(self.n2(x)))


class Positions(layers.Layer):
    def build(self, shape):
        self.p = self.add_weight(shape=shape[1:], initializer="random_normal", name="p")

    def call(self, x):
        return x + self.p


def corpus(n=120_000):
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.full(VOCAB, 0.05), VOCAB).cumsum(1)
    u, out, c = rng.random(n), np.empty(n, "int32"), 0
    for i in range(n):
        c = min(int(np.searchsorted(table[c], u[i])), VOCAB - 1)
        out[i] = c
    return out


def windows(text, training):
    usable = (len(text) - 1) // CONTEXT * CONTEXT
    x = text[:usable].reshape(-1, CONTEXT)
    y = text[1: usable + 1].reshape(-1, CONTEXT)
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(len(x))
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    text = corpus()
    inp = keras.Input((CONTEXT,), dtype="int32")
    x = Positions()(layers.Embedding(VOCAB, WIDTH)(inp))
    for _ in range(3):
        x = Block(WIDTH, 4)(x)
    model = keras.Model(inp, layers.Dense(VOCAB)(layers.LayerNormalization()(x)))
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with tempfile.TemporaryDirectory() as folder:
        keep = keras.callbacks.ModelCheckpoint(os.path.join(folder, "{epoch}.weights.h5"), save_weights_only=True)
        model.fit(windows(text[:116_000], True), validation_data=windows(text[110_000:], False), epochs=2,
                  verbose=2, callbacks=[keep])


if __name__ == "__main__":
    main()
