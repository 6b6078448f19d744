"""Routes support tickets to a team: a small transformer encoder fitted with Keras."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

jax.config.update("jax_default_matmul_precision", "highest")
keras.utils.set_random_seed(20)

SMALL = os.environ.get("SMALL") == "1"
BATCH = 8 if SMALL else 64
TICKETS = 8 * 6 if SMALL else 64 * 60
EPOCHS = 2 if SMALL else 7
WIDTH = 64 if SMALL else 768
BLOCKS = 2
WORDS, VOCABULARY, TEAMS = 256, 8192, 12


def load_tickets(seed=13):
    rng = np.random.default_rng(seed)
    teams = rng.integers(0, TEAMS, TICKETS).astype("int32")
    words = rng.zipf(1.3, (TICKETS, WORDS)) % (VOCABULARY - 512)
    jargon = rng.random((TICKETS, WORDS)) < 0.1
    words = np.where(jargon, VOCABULARY - 512 + teams[:, None] * 40 + words % 40, words)
    return words.astype("int32"), teams


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=shape[1:], initializer="random_normal", name="table")

    def call(self, x):
        return x + self.table


def encoder_block(x):
    h = layers.LayerNormalization()(x)
    h = layers.MultiHeadAttention(WIDTH // 64, 64)(h, h)
    x = layers.Add()([x, h])
    h = layers.LayerNormalization()(x)
    h = layers.Dense(4 * WIDTH, activation="gelu")(h)
    h = layers.Dense(WIDTH)(h)
    return layers.Add()([x, h])


def build():
    inputs = keras.Input((WORDS,), dtype="int32")
    x = Positions()(layers.Embedding(VOCABULARY, WIDTH)(inputs))
    for _ in range(BLOCKS):
        x = encoder_block(x)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    model = keras.Model(inputs, layers.Dense(TEAMS)(x))
    model.compile(
        keras.optimizers.Adam(1e-4),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model


def main():
    words, teams = load_tickets()
    model = build()
    model.fit(words, teams, batch_size=BATCH, epochs=1, verbose=2)
    began = time.perf_counter()
    history = model.fit(words, teams, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    steps = EPOCHS * (TICKETS // BATCH)
    print(f"steady_ms={1e3 * took / steps:.3f} loss={history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
