"""Next manoeuvre of a harbour tug: a small transformer fed by a Python generator."""
import argparse

import numpy as np
import tensorflow as tf
import keras
from keras import layers

TOKENS, LENGTH = 64, 96


class Harbour:
    """Walks of a tug between the berths; made in blocks, handed out batch by batch."""

    def __init__(self, batch, steps, seed=58):
        self.batch, self.steps = batch, steps
        self.rng = np.random.default_rng(seed)

    def walk(self):
        moves = self.rng.integers(-2, 3, (self.batch, LENGTH + 1))
        return np.abs(moves.cumsum(1) + self.rng.integers(0, TOKENS, (self.batch, 1))) % TOKENS

    def __call__(self):
        for _ in range(self.steps):
            w = self.walk().astype("int32")
            yield w[:, :-1], w[:, 1:]


class Block(layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attend = layers.MultiHeadAttention(heads, width // heads)
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.ff = keras.Sequential([layers.Dense(width * 4, activation="gelu"),
                                    layers.Dense(width)])

    def call(self, x):
        x = x + self.attend(self.norm1(x), self.norm1(x), use_causal_mask=True)
        return x + self.ff(self.norm2(x))


def pilot(width=96, depth=2):
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(TOKENS, width)(tokens)
    x = x + layers.Embedding(LENGTH, width)(keras.ops.arange(LENGTH))
    for _ in range(depth):
        x = Block(width, 4)(x)
    return keras.Model(tokens, layers.Dense(TOKENS)(x))


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--batch", type=int, default=32)
    cli.add_argument("--steps", type=int, default=55)
    args = cli.parse_args()
    keras.utils.set_random_seed(58)
    spec = tf.TensorSpec((args.batch, LENGTH), tf.int32)
    ds = tf.data.Dataset.from_generator(Harbour(args.batch, args.steps),
                                        output_signature=(spec, spec)).prefetch(2)
    model = pilot()
    model.compile(keras.optimizers.Adam(1e-3),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(ds, epochs=1, verbose=2)


if __name__ == "__main__":
    main()
