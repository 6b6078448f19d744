"""Autoencoder for desert-road vibration; fed from a Python generator over a memory map."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import Input, Model, layers

WIDTH, BATCH, STEPS = 512, 256, 360


class Caravan:
    def __init__(self, path, rows=20_000):
        g = np.random.default_rng(14)
        np.save(path, g.standard_normal((rows, WIDTH), dtype=np.float32))
        self.rows = np.load(path, mmap_mode="r")

    def camels(self):
        start = 0
        while True:
            if start + BATCH > len(self.rows):
                start = 0
            part = np.ascontiguousarray(self.rows[start:start + BATCH])
            start += BATCH
            yield part, part


def coder():
    x = inp = Input((WIDTH,))
    for w in (1280, 1024, 64, 1024, 1280):
        x = layers.Dense(w, activation="relu")(x)
    m = Model(inp, layers.Dense(WIDTH)(x))
    m.compile("sgd", "mse")
    return m


def run():
    with tempfile.TemporaryDirectory() as d:
        feed = Caravan(os.path.join(d, "rows.npy")).camels()
        m = coder()
        m.fit(feed, steps_per_epoch=3, verbose=0)
        t0 = time.perf_counter()
        m.fit(feed, steps_per_epoch=STEPS // 3, epochs=3, verbose=2)
        return time.perf_counter() - t0


secs = run()
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS", round(secs, 3))
