# Wear class of wind-turbine gearboxes from vibration spectra.
import json
import math
import os
import tempfile
import time

import keras
import numpy as np
from keras import layers

BINS, CLASSES = 320, 5


def spectra(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    freq = np.arange(BINS, dtype=np.float32)
    x = rng.gamma(2.0, 0.3, size=(n, BINS)).astype(np.float32)
    for k in range(CLASSES):
        x[labels == k] += (0.4 * np.exp(-((freq - 40 - 50 * k) ** 2) / 80.0)).astype(np.float32)
    return x, labels


class WarmUp(keras.callbacks.Callback):
    def __init__(self, peak, steps):
        super().__init__()
        self.peak, self.steps, self.seen = peak, steps, 0

    def on_train_batch_begin(self, batch, logs=None):
        if self.seen <= self.steps:
            self.model.optimizer.learning_rate.assign(self.peak * (self.seen + 1) / (self.steps + 1))
        self.seen += 1


class WeightJournal(keras.callbacks.Callback):
    """Keeps track of how the weight distributions move, for the wear report's appendix."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.entry = 0

    def on_train_begin(self, logs=None):
        self.out = open(self.path, "w")

    def describe(self, w):
        counts, edges = np.histogram(w, bins=48)
        low, mid, high = np.percentile(w, [2.0, 50.0, 98.0])
        return {"hist": counts.tolist(), "edges": [float(edges[0]), float(edges[-1])],
                "q": [float(low), float(mid), float(high)], "rms": math.sqrt(float(np.mean(w * w)))}

    def on_train_batch_end(self, batch, logs=None):
        row = {"entry": self.entry, "loss": float(logs["loss"])}
        for v in self.model.trainable_variables:
            row[v.path] = self.describe(v.numpy().ravel())
        self.out.write(json.dumps(row) + "\n")
        self.entry += 1

    def on_train_end(self, logs=None):
        self.out.close()


def network():
    return keras.Sequential([
        keras.Input((BINS,)),
        layers.Normalization(mean=0.7, variance=0.3),
        layers.Dense(512, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(384, activation="relu"),
        layers.Dense(128, activation="relu"),
        layers.Dense(CLASSES, activation="softmax"),
    ])


keras.utils.set_random_seed(8)
x, y = spectra(256 * 60, seed=8)
model = network()
model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
folder = tempfile.mkdtemp(prefix="gearbox_")
callbacks = [WarmUp(1e-3, 40), WeightJournal(os.path.join(folder, "weights.jsonl")),
             keras.callbacks.CSVLogger(os.path.join(folder, "epochs.csv"))]
EPOCHS = 7
start = time.perf_counter()
model.fit(x, y, batch_size=256, epochs=EPOCHS, verbose=2, callbacks=callbacks)
elapsed = time.perf_counter() - start
print("WORK", len(x) * EPOCHS)
print("TRAIN_SECONDS", round(elapsed, 3))
