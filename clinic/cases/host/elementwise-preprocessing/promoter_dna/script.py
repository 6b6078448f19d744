"""Promoter strength from DNA windows: bases to ids, then a dilated 1-D CNN."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
WINDOWS, LENGTH, BATCH, EPOCHS = (256, 100, 32, 2) if SMALL else (50_000, 1024, 512, 2)

rng = np.random.default_rng(16)
raw = np.frombuffer(b"ACGTACGTACGTACGN", "uint8")[rng.integers(0, 16, (WINDOWS, LENGTH), dtype="uint8")]
reads = [row.tobytes().decode() for row in raw]
strength = (raw == ord("G")).mean(axis=1, keepdims=True).astype("float32")
del raw

CODE = {"A": 0, "C": 1, "G": 2, "T": 3}
ids = np.empty((WINDOWS, LENGTH), "uint8")
for i, read in enumerate(reads):
    for j, base in enumerate(read):
        ids[i, j] = CODE.get(base, 4)

keras.config.set_dtype_policy("mixed_bfloat16")
inputs = keras.Input((LENGTH,), dtype="uint8")
h = layers.Embedding(5, 32)(inputs)
for rate in (1, 2, 4):
    h = layers.Conv1D(64, 9, dilation_rate=rate, padding="same", activation="relu")(h)
h = layers.GlobalMaxPooling1D()(h)
outputs = layers.Dense(1, dtype="float32")(h)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-3), "mse")


class Beat(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.t, self.n = time.perf_counter(), 0

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1

    def on_epoch_end(self, epoch, logs=None):
        self.ms = (time.perf_counter() - self.t) / self.n * 1e3


beat = Beat()
model.fit(ids, strength, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[beat])
print(f"steady_ms={beat.ms:.3f}")
