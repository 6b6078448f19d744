"""Bearing-fault classifier on vibration windows, with a running log of the weights' distributions."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(20)

SMALL = os.environ.get("SMALL") == "1"
BATCH = 16 if SMALL else 512
WINDOWS = 16 * 6 if SMALL else 512 * 20
EPOCHS = 2 if SMALL else 30
WIDTH = 32 if SMALL else 256
SAMPLES, FAULTS = 2048, 5


def vibration(count, seed=2):
    rng = np.random.default_rng(seed)
    fault = rng.integers(0, FAULTS, count).astype("int32")
    t = np.arange(SAMPLES, dtype="float32")[None]
    signal = np.sin(t * (0.05 + 0.03 * fault[:, None]).astype("float32"))
    signal += rng.standard_normal((count, SAMPLES), dtype="float32")
    return signal, fault


class WeightLog(keras.callbacks.Callback):
    """Keeps histogram, median and spread of every weight for the training report."""

    def __init__(self, bins=64):
        super().__init__()
        self.bins = bins
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        row = {}
        for weight in self.model.trainable_variables:
            values = np.asarray(weight.value).ravel()
            counts, edges = np.histogram(values, bins=self.bins)
            row[weight.path] = (counts, edges[0], edges[-1], np.median(values), values.std())
        self.rows.append(row)


def build():
    inputs = keras.Input((SAMPLES,))
    x = layers.Reshape((SAMPLES // 4, 4))(inputs)
    x = layers.Conv1D(WIDTH, 5, padding="same", activation="relu")(x)
    for _ in range(3):
        x = layers.Conv1D(WIDTH, 3, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, layers.Dense(FAULTS)(x))
    model.compile(keras.optimizers.Adam(3e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def main():
    signal, fault = vibration(WINDOWS)
    model = build()
    log = WeightLog()
    fit = dict(batch_size=BATCH, shuffle=False, verbose=2, callbacks=[log])
    model.fit(signal, fault, epochs=1, **fit)
    began = time.perf_counter()
    history = model.fit(signal, fault, epochs=EPOCHS, **fit)
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    last = log.rows[-1]
    print("widest weight:", max(last, key=lambda name: last[name][4]), "rows kept:", len(log.rows))
    print(f"steady_ms={1e3 * took / (EPOCHS * (WINDOWS // BATCH)):.3f} loss={history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()
