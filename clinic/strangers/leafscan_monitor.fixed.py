"""Leaf disease classifier with a rank monitor on its dense kernels, written to a JSON-lines file."""
import json
import os
import tempfile

import keras
import numpy as np
from keras import layers


class SpectrumLog(keras.callbacks.Callback):
    """Keeps an eye on collapse: effective rank and spectral norm of the kernels."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = []

    def _spectrum(self, kernel):
        flat = kernel.reshape(-1, kernel.shape[-1])
        s = np.linalg.svd(flat, compute_uv=False)
        p = s / s.sum()
        return {"norm": float(s[0]), "rank": float(np.exp(-(p * np.log(p + 1e-12)).sum()))}

    def _record(self, tag):
        row = {"at": tag}
        for layer in self.model.layers:
            w = layer.get_weights()
            if w and w[0].ndim >= 2:
                row[layer.name] = self._spectrum(w[0])
        self.rows.append(row)

    def on_epoch_end(self, epoch, logs=None):
        self._record(epoch)

    def on_train_end(self, logs=None):
        with open(self.path, "w") as f:
            for r in self.rows:
                f.write(json.dumps(r) + "\n")


def leaves(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 6, n)
    x = rng.normal(size=(n, 32, 32, 3)).astype("float32")
    x[np.arange(n), y * 4, :, 0] += 2.0
    return x, y


def build():
    i = keras.Input((32, 32, 3))
    h = layers.Conv2D(16, 3, strides=2, activation="relu")(i)
    h = layers.Conv2D(32, 3, strides=2, activation="relu")(h)
    h = layers.Flatten()(h)
    h = layers.Dense(192, activation="relu")(h)
    h = layers.Dense(128, activation="relu")(h)
    return keras.Model(i, layers.Dense(6, activation="softmax")(h))


if __name__ == "__main__":
    x, y = leaves(1280)
    net = build()
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    out = os.path.join(tempfile.mkdtemp(), "spectrum.jsonl")
    net.fit(x, y, batch_size=32, epochs=3, callbacks=[SpectrumLog(out)], verbose=2)
    print("spectra in", out)
