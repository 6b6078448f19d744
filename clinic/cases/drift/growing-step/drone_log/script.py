"""Drone attitude estimator; every training step's numbers are kept for the lab's dashboard."""
import json
import os
import tempfile
import time

import keras
import numpy as np


class Dashboard(keras.callbacks.Callback):
    def __init__(self, folder):
        super().__init__()
        self.path = os.path.join(folder, "run.json")
        self.history = []
        self.step = 0

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        row = {"step": self.step, "batch": batch}
        row.update({k: round(float(v), 6) for k, v in logs.items()})
        self.history.append(row)
        with open(self.path, "w") as f:
            json.dump(self.history, f)

    def tail(self, n=3):
        return self.history[-n:]


def imu(n, seed=26):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(-1, 1, (n, 3))
    acc = np.sin(angle) + rng.normal(0, .05, (n, 3))
    gyro = np.gradient(angle, axis=0) + rng.normal(0, .05, (n, 3))
    mag = np.cos(angle) + rng.normal(0, .05, (n, 3))
    return np.concatenate([acc, gyro, mag], 1).astype("float32"), angle.astype("float32")


def estimator():
    inputs = keras.Input((9,))
    h = inputs
    for k in range(3):
        r = keras.layers.Dense(64, activation="gelu", name=f"up{k}")(h)
        r = keras.layers.Dense(64, name=f"down{k}")(r)
        h = keras.layers.LayerNormalization()(r if k == 0 else r + h)
    return keras.Model(inputs, keras.layers.Dense(3)(h))


x, y = imu(19200)
model = estimator()
model.compile("adam", "mse", metrics=["mae"])
board = Dashboard(tempfile.mkdtemp(prefix="drone"))
t0 = time.perf_counter()
model.fit(x, y, batch_size=64, epochs=4, callbacks=[board], verbose=2)
spent = time.perf_counter() - t0
print(board.tail())
print("WORK", board.step)
print("TRAIN_SECONDS %.2f" % spent)
