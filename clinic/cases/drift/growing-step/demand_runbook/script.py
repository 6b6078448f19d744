"""Demand regression on a wide table of store/day features.

Every run keeps a run.json next to its weights so that the dashboard can plot it.
"""
import json
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers

SETTINGS = {
    "rows": 280 * 256,
    "features": 60,
    "batch_size": 256,
    "epochs": 5,
    "hidden": [384, 384, 128],
    "lr": 8e-4,
}


class RunBook:
    """What happened in a run, readable by the dashboard at any moment."""

    def __init__(self, folder, settings):
        self.path = os.path.join(folder, "run.json")
        self.doc = {"settings": settings, "rows": [], "epochs": []}

    def note(self, table, **values):
        self.doc[table].append(values)
        self._publish()

    def _publish(self):
        part = self.path + ".part"
        with open(part, "w") as f:
            json.dump(self.doc, f, indent=2)
        os.replace(part, self.path)


class Journal(keras.callbacks.Callback):
    def __init__(self, book):
        super().__init__()
        self.book = book
        self.t0 = time.time()
        self.epoch = 0
        self.step = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.book.note(
            "rows",
            step=self.step,
            epoch=self.epoch,
            wall=time.time() - self.t0,
            **{k: float(v) for k, v in (logs or {}).items()},
        )

    def on_epoch_end(self, epoch, logs=None):
        self.book.note("epochs", epoch=epoch, **{k: float(v) for k, v in logs.items()})


def make_table(cfg, rng):
    x = rng.standard_normal((cfg["rows"], cfg["features"]), dtype=np.float32)
    w = rng.standard_normal((cfg["features"], 8), dtype=np.float32) / 8.0
    y = np.tanh(x @ w).sum(axis=1) + 0.1 * rng.standard_normal(cfg["rows"], dtype=np.float32)
    return x, y.astype("float32")


def make_model(cfg):
    inp = keras.Input((cfg["features"],))
    h = inp
    for units in cfg["hidden"]:
        h = layers.Dense(units, activation="relu")(h)
    model = keras.Model(inp, layers.Dense(1)(h))
    model.compile(
        optimizer=keras.optimizers.Adam(cfg["lr"]),
        loss="mse",
        metrics=["mae", keras.metrics.RootMeanSquaredError(name="rmse")],
    )
    return model


def main():
    keras.utils.set_random_seed(11)
    folder = tempfile.mkdtemp(prefix="demand_")
    x, y = make_table(SETTINGS, np.random.default_rng(11))
    model = make_model(SETTINGS)
    book = RunBook(folder, SETTINGS)
    model.fit(
        x,
        y,
        batch_size=SETTINGS["batch_size"],
        epochs=SETTINGS["epochs"],
        callbacks=[Journal(book)],
        verbose=2,
    )
    model.save_weights(os.path.join(folder, "final.weights.h5"))
    print("run kept in", folder)


if __name__ == "__main__":
    main()
