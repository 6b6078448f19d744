"""Thread tension of a loom from its drive signals, with a record of how the layers move during training."""
import csv
import os
import tempfile
import time

import keras
import numpy as np
from keras import layers

BATCH, EPOCHS = 128, 3


def drive_signals(n, length=128, seed=31):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, size=(n, 1))
    rpm = rng.uniform(3, 12, size=(n, 1))
    t = np.linspace(0, 1, length)[None]
    pull = rng.gamma(2.0, 0.5, size=(n, 1))
    torque = pull * np.abs(np.sin(2 * np.pi * rpm * t + phase)) + 0.1 * rng.normal(size=(n, length))
    current = 0.5 * torque + 0.2 * rng.normal(size=(n, length))
    return np.stack([torque, current], -1).astype("float32"), pull.astype("float32")


class LayerJournal(keras.callbacks.Callback):
    """One line per layer: the quantiles of the weights, how many are close to zero, the step's size."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_begin(self, logs=None):
        self.file = open(self.path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.last = {}
        self.count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        for layer in self.model.layers:
            if not layer.weights:
                continue
            flat = np.concatenate([w.ravel() for w in layer.get_weights()])
            quantiles = np.percentile(flat, [1, 10, 25, 50, 75, 90, 99])
            moved = np.linalg.norm(flat - self.last.get(layer.name, flat))
            dead = float(np.mean(np.abs(flat) < 1e-3))
            self.writer.writerow([self.count, layer.name, *np.round(quantiles, 6), moved, dead])
            self.last[layer.name] = flat

    def on_train_end(self, logs=None):
        self.file.close()


signals, tension = drive_signals(12800)
inputs = keras.Input(signals.shape[1:])
x = layers.Conv1D(32, 9, strides=2, activation="relu")(inputs)
x = layers.Conv1D(48, 5, strides=2, activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dense(512, activation="relu")(x)
x = layers.Dense(128, activation="relu")(x)
outputs = layers.Dense(1)(x)
model = keras.Model(inputs, outputs)
model.compile("sgd", loss="mse", metrics=["mae"])

folder = tempfile.mkdtemp()
start = time.time()
history = model.fit(
    signals, tension, batch_size=BATCH, epochs=EPOCHS, verbose=2,
    callbacks=[LayerJournal(os.path.join(folder, "layers.csv"))],
)
print("last mae", history.history["mae"][-1])
print("WORK", EPOCHS * len(signals))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
