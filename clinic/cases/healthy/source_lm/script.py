"""Decoder-only language model over source-code tokens, fitted with Keras in bfloat16."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

keras.mixed_precision.set_global_policy("mixed_bfloat16")

SMALL = os.environ.get("SMALL") == "1"
BATCH = 4 if SMALL else 32
FILES = 4 * 5 if SMALL else 32 * 100
EPOCHS = 2 if SMALL else 5
LENGTH = 64 if SMALL else 512
WIDTH = 64 if SMALL else 1024
BLOCKS = 2 if SMALL else 4
VOCABULARY = 512 if SMALL else 4096


def tokenised_files(seed=15):
    rng = np.random.default_rng(seed)
    follows = rng.integers(0, VOCABULARY, (VOCABULARY, 4))
    choice = rng.integers(0, 4, (FILES, LENGTH + 1))
    tokens = np.zeros((FILES, LENGTH + 1), "int32")
    tokens[:, 0] = rng.integers(0, VOCABULARY, FILES)
    for t in range(1, LENGTH + 1):
        tokens[:, t] = follows[tokens[:, t - 1], choice[:, t]]
    return tokens[:, :-1], tokens[:, 1:]


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="table")

    def call(self, x):
        return x + keras.ops.cast(self.table, x.dtype)


def decoder_block(x):
    h = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(WIDTH // 64, 64)(h, h, use_causal_mask=True)])
    h = layers.Dense(4 * WIDTH, activation="gelu")(layers.LayerNormalization()(x))
    return layers.Add()([x, layers.Dense(WIDTH)(h)])


def build():
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = Positions()(layers.Embedding(VOCABULARY, WIDTH)(inputs))
    for _ in range(BLOCKS):
        x = decoder_block(x)
    logits = layers.Dense(VOCABULARY)(layers.LayerNormalization()(x))
    model = keras.Model(inputs, layers.Activation("linear", dtype="float32")(logits))
    model.compile(
        keras.optimizers.AdamW(2e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def main():
    x, y = tokenised_files()
    model = build()
    model.fit(x, y, batch_size=BATCH, epochs=1, verbose=2)
    began = time.perf_counter()
    history = model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    steps = EPOCHS * (FILES // BATCH)
    print(f"steady_ms={1e3 * took / steps:.3f} loss={history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
