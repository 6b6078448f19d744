"""Protein contact pre-training with a monitor of the layers' spectral norms."""
import csv
import os
import tempfile
import time

import keras
import numpy as np
from keras import layers


class SpectralMonitor(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = 0

    def on_train_begin(self, logs=None):
        self.file = open(self.path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["at", "layer", "sigma", "stable_rank"])

    def record(self, at):
        for layer in self.model.layers:
            if isinstance(layer, layers.Dense):
                s = np.linalg.svd(layer.get_weights()[0], compute_uv=False)
                self.writer.writerow([at, layer.name, s[0], float((s ** 2).sum() / s[0] ** 2)])
                self.rows += 1
        self.file.flush()

    def on_train_batch_end(self, batch, logs=None):
        self.record(batch)

    def on_train_end(self, logs=None):
        self.file.close()


def contact_pairs(n, seed=6):
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(2, n, 60)).astype("float32")
    touching = ((left * right).sum(1) > 0).astype("float32")
    return np.concatenate([left, right], 1), touching


def contact_net():
    inp = keras.Input((120,))
    h = layers.Dense(192, activation="relu", name="d1")(inp)
    h = layers.Dense(192, activation="relu", name="d2")(h)
    h = layers.Dense(128, activation="relu", name="d3")(h)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid", name="contact")(h))


def main():
    x, y = contact_pairs(16000)
    model = contact_net()
    model.compile(keras.optimizers.AdamW(1e-3), "binary_crossentropy", metrics=["AUC"])
    path = os.path.join(tempfile.mkdtemp(), "spectrum.csv")
    monitor = SpectralMonitor(path)
    t0 = time.perf_counter()
    model.fit(x, y, batch_size=128, epochs=3, callbacks=[monitor], verbose=2)
    spent = time.perf_counter() - t0
    print("rows", monitor.rows, "bytes", os.path.getsize(path))
    print("WORK", len(x) * 3)
    print("TRAIN_SECONDS %.2f" % spent)


if __name__ == "__main__":
    main()
