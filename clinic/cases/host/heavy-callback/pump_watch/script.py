import json
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras


class WeightDiary(keras.callbacks.Callback):
    """Keeps an eye on every layer."""

    def __init__(self, path):
        super().__init__()
        self.out = open(path, "w")

    def describe(self, w):
        counts, edges = np.histogram(w, bins=50)
        return {
            "quantiles": np.percentile(w, [1, 25, 50, 75, 99]).tolist(),
            "counts": counts.tolist(),
            "edges": edges.tolist(),
        }

    def on_train_batch_end(self, batch, logs=None):
        page = {"batch": batch, "loss": float(logs["loss"])}
        for layer in self.model.layers:
            for i, w in enumerate(layer.get_weights()):
                page[f"{layer.name}/{i}"] = self.describe(w)
        self.out.write(json.dumps(page) + "\n")
        self.out.flush()

    def on_train_end(self, logs=None):
        self.out.close()


def get_data(n=4096, length=64, seed=3):
    rng = np.random.default_rng(seed)
    vib = rng.normal(size=(n, length)).astype("float32")
    wear = vib[:, :8].sum(1) * 0.3 + np.abs(vib[:, 20])
    return vib, wear.astype("float32")


def main():
    keras.utils.set_random_seed(3)
    x, y = get_data()
    model = keras.Sequential([keras.Input((64,))])
    for width in (512, 512, 256):
        model.add(keras.layers.Dense(width, activation="gelu"))
    model.add(keras.layers.Dense(1))
    model.compile(optimizer="adamw", loss="mse")
    with tempfile.TemporaryDirectory() as d:
        t = time.monotonic()
        model.fit(x, y, batch_size=64, epochs=5, verbose=2, callbacks=[WeightDiary(d + "/diary.jsonl")])
        print("fit took", time.monotonic() - t)


main()
