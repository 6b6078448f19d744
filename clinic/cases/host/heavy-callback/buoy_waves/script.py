"""Significant wave height from buoy spectra, with a record of how the weights are distributed."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers

SMALL = os.environ.get("SMALL") == "1"
ROWS, BINS, BATCH, EPOCHS = (512, 64, 64, 2) if SMALL else (51_200, 256, 512, 2)

keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
spectra = rng.gamma(2.0, 1.0, (ROWS, BINS)).astype("float32")
height = (4 * np.sqrt(spectra.mean(axis=1, keepdims=True))).astype("float32")

inputs = keras.Input((BINS,))
h = layers.LayerNormalization()(inputs)
for width in (512, 512, 512):
    h = layers.Dense(width, activation="gelu")(h)
outputs = layers.Dense(1)(h)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-3), "huber")


class WeightRecord(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rows = []

    def snapshot(self):
        row = {}
        for v in self.model.trainable_variables:
            w = np.asarray(v.value).ravel()
            counts, edges = np.histogram(w, bins=64)
            row[v.path] = (counts, edges, np.percentile(w, [1, 25, 50, 75, 99]))
        self.rows.append(row)

    def on_train_batch_end(self, batch, logs=None):
        self.snapshot()


class Pace(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.begin = time.perf_counter()
        self.ends = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())

    def on_epoch_end(self, epoch, logs=None):
        self.stop = time.perf_counter()


record, pace = WeightRecord(), Pace()
model.fit(spectra, height, batch_size=BATCH, epochs=EPOCHS, verbose=2, callbacks=[pace, record])
print("snapshots", len(record.rows))
print(f"steady_ms={(pace.stop - pace.begin) / len(pace.ends) * 1e3:.3f}")
