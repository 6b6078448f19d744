import os
import shutil
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
from keras import layers

WORK_DIR = Path(tempfile.mkdtemp(prefix="coins"))


def coin_photos(n=2400, side=40):
    rng = np.random.default_rng(30)
    yy, xx = np.mgrid[:side, :side] - side / 2
    disc = (np.hypot(yy, xx) < side / 2 - 3).astype("float32")
    grade = rng.integers(0, 8, n)
    wear = rng.random((n, side, side), dtype=np.float32) * (grade[:, None, None] / 8)
    return (disc * (1 - 0.6 * wear))[..., None].astype("float32"), grade


def save_npz(path, x, y):
    np.savez(path, photos=(x * 255).astype("uint8"), grade=y)


def load_npz(path):
    with np.load(path) as z:
        return z["photos"].astype("float32") / 255.0, z["grade"]


def grading_model(side=40):
    return keras.Sequential([
        layers.Input((side, side, 1)),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.Conv2D(24, 3, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(256, activation="relu"),
        layers.Dropout(0.4),
        layers.Dense(8, activation="softmax"),
    ])


save_npz(WORK_DIR / "coins.npz", *coin_photos())
x, y = load_npz(WORK_DIR / "coins.npz")

model = grading_model()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
callbacks = [
    keras.callbacks.ModelCheckpoint(str(WORK_DIR / "coin.keras"), save_freq=5),
    keras.callbacks.CSVLogger(str(WORK_DIR / "log.csv")),
    keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=3),
]

epochs = 6
start = time.time()
model.fit(x, y, batch_size=32, epochs=epochs, callbacks=callbacks, verbose=2)
seconds = time.time() - start
print("saved", os.listdir(WORK_DIR))
shutil.rmtree(WORK_DIR)
print("WORK", epochs * len(x))
print("TRAIN_SECONDS %.2f" % seconds)
