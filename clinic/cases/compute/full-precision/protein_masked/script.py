"""Masked-residue pretraining of a protein encoder."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
CFG = dict(layers=8, width=1024, heads=16, length=512, batch=32, steps=60, epochs=2, policy="float32")
if SMALL:
    CFG.update(layers=1, width=64, heads=2, length=64, batch=4, steps=4)

keras.config.set_dtype_policy(CFG["policy"])
RESIDUES, MASK = 25, 31
rng = np.random.default_rng(8)
n = CFG["steps"] * CFG["batch"]
chains = rng.integers(0, RESIDUES, (n, CFG["length"]), dtype="uint8")
hidden = rng.random(chains.shape) < 0.15
seen = np.where(hidden, MASK, chains).astype("int32")
weight = hidden.astype("float32")


def encoder_block(h):
    w = CFG["width"]
    a = layers.LayerNormalization()(h)
    h = h + layers.MultiHeadAttention(CFG["heads"], w // CFG["heads"])(a, a)
    m = layers.LayerNormalization()(h)
    m = layers.Dense(4 * w, activation="gelu")(m)
    return h + layers.Dense(w)(m)


tokens = keras.Input((CFG["length"],), dtype="int32")
h = layers.Embedding(32, CFG["width"])(tokens)
for _ in range(CFG["layers"]):
    h = encoder_block(h)
logits = layers.Dense(32, dtype="float32")(layers.LayerNormalization()(h))
model = keras.Model(tokens, logits)
model.compile(keras.optimizers.AdamW(2e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Meter(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.t0, self.n = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1

    def on_epoch_end(self, epoch, logs=None):
        self.ms = (time.perf_counter() - self.t0) / self.n * 1e3


meter = Meter()
model.fit(seen, chains.astype("int32"), sample_weight=weight, batch_size=CFG["batch"],
          epochs=CFG["epochs"], verbose=2, callbacks=[meter])
print(f"steady_ms={meter.ms:.3f}")
