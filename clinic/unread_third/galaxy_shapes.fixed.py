"""Galaxy morphology regression with a record of how the weights move."""
import json
import os
import tempfile

import keras
import numpy as np
from keras import layers, ops


class WeightJournal(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.batches = 0

    def _entry(self):
        entry = {"batch": self.batches}
        for layer in self.model.layers:
            for i, w in enumerate(layer.get_weights()):
                counts, edges = np.histogram(w, bins=64)
                entry[f"{layer.name}/{i}"] = {
                    "mean": float(w.mean()),
                    "std": float(w.std()),
                    "hist": counts.tolist(),
                    "edges": edges.tolist(),
                }
        return entry

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1

    def on_epoch_end(self, epoch, logs=None):
        with open(self.path, "a") as f:
            f.write(json.dumps(self._entry()) + "\n")


def telescope(n=12000, side=64):
    rng = np.random.default_rng(13)
    yy, xx = np.mgrid[-1:1:side * 1j, -1:1:side * 1j]
    e = rng.uniform(0.2, 1.0, (n, 1, 1)).astype("float32")
    s = rng.uniform(2.0, 8.0, (n, 1, 1)).astype("float32")
    img = np.exp(-s * (xx ** 2 + (yy / e) ** 2)).astype("float32")
    img += rng.standard_normal(img.shape, dtype=np.float32) * 0.05
    return img[..., None], np.concatenate([e[:, 0], s[:, 0] / 8], axis=1)


def rms_error(y_true, y_pred):
    return ops.sqrt(ops.mean(ops.square(y_true - y_pred)))


def build():
    inp = keras.Input((64, 64, 1))
    x = inp
    for f in (32, 64, 128):
        x = layers.Conv2D(f, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(512, activation="relu")(x)
    x = layers.Dropout(0.3)(x)
    x = layers.Dense(256, activation="relu")(x)
    return keras.Model(inp, layers.Dense(2)(x))


if __name__ == "__main__":
    images, shapes = telescope()
    model = build()
    model.compile(optimizer="adam", loss="mse", metrics=[rms_error])
    with tempfile.TemporaryDirectory() as tmp:
        journal = WeightJournal(os.path.join(tmp, "weights.jsonl"))
        model.fit(images, shapes, batch_size=64, epochs=10,
                  validation_split=0.1, callbacks=[journal], verbose=2)
