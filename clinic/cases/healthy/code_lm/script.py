"""Next-token pretraining of a decoder on source code tokens."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
VOCAB, LENGTH, WIDTH, DEPTH, HEADS = (256, 32, 64, 1, 2) if SMALL else (8192, 128, 2048, 4, 16)
BATCH, STEPS, EPOCHS = (4, 4, 2) if SMALL else (128, 70, 2)

keras.utils.set_random_seed(0)
keras.config.set_dtype_policy("mixed_bfloat16")
rng = np.random.default_rng(0)
stream = rng.integers(0, VOCAB, (STEPS * BATCH, LENGTH + 1)).astype("int32")


class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = layers.LayerNormalization(), layers.LayerNormalization()
        self.attend = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.up = layers.Dense(4 * WIDTH, activation="relu")
        self.down = layers.Dense(WIDTH)

    def build(self, shape):
        self.n1.build(shape), self.n2.build(shape)
        self.attend.build(shape, shape)
        self.up.build(shape)
        self.down.build((*shape[:-1], 4 * WIDTH))

    def call(self, h):
        a = self.n1(h)
        h = h + self.attend(a, a, use_causal_mask=True)
        return h + self.down(self.up(self.n2(h)))


tokens = keras.Input((LENGTH,), dtype="int32")
h = layers.Embedding(VOCAB, WIDTH)(tokens)
for _ in range(DEPTH):
    h = Block()(h)
logits = layers.Dense(VOCAB)(layers.LayerNormalization()(h))
model = keras.Model(tokens, logits)
model.compile(keras.optimizers.AdamW(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Throughput(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.t0, self.n = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1

    def on_epoch_end(self, epoch, logs=None):
        self.ms = (time.perf_counter() - self.t0) / self.n * 1e3


meter = Throughput()
model.fit(stream[:, :-1], stream[:, 1:], batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[meter])
print(f"steady_ms={meter.ms:.3f}")
