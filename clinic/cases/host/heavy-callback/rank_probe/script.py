"""Does a wide tabular net keep its rank while it learns? Turbine telemetry, one regression head."""
import csv
import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops


def telemetry(n=6400, d=60, seed=1):
    r = np.random.default_rng(seed)
    latent = r.normal(size=(n, 8))
    x = latent @ r.normal(size=(8, d)) + 0.3 * r.normal(size=(n, d))
    y = np.sin(latent[:, :3]).sum(1, keepdims=True) + 0.1 * r.normal(size=(n, 1))
    return x.astype("float32"), y.astype("float32")


class Notebook:
    """Collects figures for the appendix."""

    def __init__(self, model, path):
        self.model, self.path, self.rows = model, path, []

    def entry(self, when, logs=None):
        row = [when, (logs or {}).get("loss", float("nan"))]
        for layer in self.model.layers:
            if isinstance(layer, layers.Dense) and layer.units > 1:
                s = np.linalg.svd(ops.convert_to_numpy(layer.kernel), compute_uv=False)
                p = s / s.sum()
                row.append(float(np.exp(-(p * np.log(p + 1e-12)).sum())))
        self.rows.append(row)

    def close(self, logs=None):
        with open(self.path, "w", newline="") as f:
            csv.writer(f).writerows(self.rows)


def build(d):
    return keras.Sequential([
        keras.Input((d,)),
        layers.Dense(192, activation="relu"),
        layers.Dense(192, activation="relu"),
        layers.Dense(192, activation="relu"),
        layers.Dense(1),
    ])


x, y = telemetry()
model = build(x.shape[1])
model.compile(keras.optimizers.AdamW(1e-3), "mse")
book = Notebook(model, os.path.join(tempfile.mkdtemp(), "rank.csv"))
feed = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(6400).batch(128).prefetch(2)
hooks = [
    keras.callbacks.LambdaCallback(on_train_batch_end=book.entry, on_train_end=book.close),
    keras.callbacks.TerminateOnNaN(),
]
model.fit(feed, epochs=6, callbacks=hooks, verbose=2)
print("effective rank of the last entry", [round(v, 1) for v in book.rows[-1][2:]])
