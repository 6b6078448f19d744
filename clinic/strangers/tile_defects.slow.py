"""Finds cracks in tiles. Small conv net, everything driven by SETTINGS."""
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers

SETTINGS = {
    "image": 40,
    "n_images": 352,
    "fit": {"batch_size": 32, "epochs": 10, "verbose": 2},
    "optimizer": {"class_name": "SGD", "config": {"learning_rate": 0.02, "momentum": 0.9}},
    "checkpoint": {"filename": "last.keras", "save_freq": 1, "monitor": "loss"},
    "plateau": {"factor": 0.5, "patience": 3},
}


def make_tiles(n, size):
    rng = np.random.default_rng(21)
    x = rng.normal(0.5, 0.08, (n, size, size, 1))
    y = rng.integers(0, 2, n)
    for i in np.flatnonzero(y):
        r, slope = rng.integers(5, size - 5), rng.uniform(-0.4, 0.4)
        cols = np.arange(size)
        rows = np.clip((r + slope * (cols - size / 2)).astype(int), 0, size - 1)
        x[i, rows, cols, 0] -= 0.45
    return x.astype("float32"), y.astype("float32")


def make_model(size):
    return keras.Sequential([
        layers.Input((size, size, 1)),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.Conv2D(12, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(16, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


def make_callbacks(settings, folder):
    ck = dict(settings["checkpoint"])
    path = os.path.join(folder, ck.pop("filename"))
    return [
        keras.callbacks.ModelCheckpoint(path, **ck),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", **settings["plateau"]),
    ]


def run(settings):
    x, y = make_tiles(settings["n_images"], settings["image"])
    model = make_model(settings["image"])
    model.compile(keras.optimizers.get(settings["optimizer"]), "binary_crossentropy", metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        t0 = time.time()
        model.fit(x, y, callbacks=make_callbacks(settings, folder), **settings["fit"])
        print("TRAIN_SECONDS %.2f" % (time.time() - t0))
        print(sorted(os.listdir(folder)))


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    run(SETTINGS)
