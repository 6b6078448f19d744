"""Species counts from plankton-tow sensor vectors; keeps a diary of how the network develops."""
import json
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers


class Diary:
    def __init__(self, path):
        self.file = open(path, "w")
        self.entries = 0

    def summary(self, a):
        a = np.asarray(a).ravel()
        counts, edges = np.histogram(a, bins=40)
        return {"n": counts.tolist(), "lo": float(edges[0]), "hi": float(edges[-1]),
                "q": np.percentile(a, (5, 50, 95)).tolist()}

    def page(self, model, when, logs):
        entry = {w.path: self.summary(w) for w in model.trainable_variables}
        entry["when"], entry["loss"] = int(when), float((logs or {}).get("loss", 0.0))
        self.file.write(json.dumps(entry) + "\n")
        self.entries += 1

    def close(self):
        self.file.close()


def companions(model, diary):
    return [
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda k, logs: diary.page(model, k, logs),
            on_train_end=lambda logs: diary.close()),
        keras.callbacks.LearningRateScheduler(lambda epoch, lr: lr * 0.95),
    ]


def data(n=9600, dim=128, seed=3):
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, dim)).astype("float32")
    y = np.exp(0.3 * x[:, :5]).astype("float32")
    return x, y


def make():
    i = layers.Input((128,))
    h = layers.Dense(320, activation="relu")(i)
    h = layers.Dense(320, activation="relu")(h)
    o = layers.Dense(5, activation="softplus")(h)
    m = keras.Model(i, o)
    m.compile(keras.optimizers.Adam(1e-3), "poisson")
    return m


with tempfile.TemporaryDirectory() as folder:
    x, y = data()
    model = make()
    model.fit(x[:256], y[:256], batch_size=64, verbose=0)
    diary = Diary(os.path.join(folder, "diary.jsonl"))
    start = time.perf_counter()
    model.fit(x, y, batch_size=64, epochs=10, verbose=2, callbacks=companions(model, diary))
    secs = time.perf_counter() - start
print("pages", diary.entries)
print("WORK", 10 * len(x))
print("TRAIN_SECONDS", round(secs, 3))
