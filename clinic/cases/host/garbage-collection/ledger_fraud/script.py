"""Ledger anomaly model: autoencoder over features built from an in-memory ledger of account objects."""
import contextlib
import gc
import time

import numpy as np
import tensorflow as tf


class Account:
    def __init__(self, number, rng):
        self.number = number
        self.balance = float(rng.gamma(2.0, 500.0))
        self.history = [(k, float(v)) for k, v in enumerate(rng.normal(0, 100, 6))]
        self.tags = {"country": int(rng.integers(0, 60)), "peers": []}


def open_ledger(n):
    rng = np.random.default_rng(9)
    ledger = [Account(i, rng) for i in range(n)]
    for a in ledger:
        a.tags["peers"].append(ledger[int(rng.integers(0, n))])
    return ledger


def featurise(ledger):
    feats = np.array([[a.balance, *(v for _, v in a.history), a.tags["peers"][0].balance] for a in ledger], np.float32)
    feats = (feats - feats.mean(0)) / feats.std(0)
    basis = np.random.default_rng(1).normal(size=(feats.shape[1], 64)).astype(np.float32)
    return np.tanh(feats @ basis)


@contextlib.contextmanager
def tidy():
    try:
        yield
    finally:
        gc.collect()


class AutoEncoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.down = tf.keras.Sequential([tf.keras.layers.Dense(256, "relu"), tf.keras.layers.Dense(16)])
        self.up = tf.keras.Sequential([tf.keras.layers.Dense(256, "relu"), tf.keras.layers.Dense(64)])

    def call(self, x):
        return self.up(self.down(x))


def main():
    ledger = open_ledger(40_000)
    x = featurise(ledger)
    model = AutoEncoder()
    opt = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(batch) - batch))
        g = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(g, model.trainable_variables))
        return loss

    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(len(x)).repeat().batch(512).prefetch(2)
    t0 = time.perf_counter()
    for i, batch in enumerate(ds.take(64)):
        with tidy():
            loss = step(batch)
        if i % 16 == 15:
            print(f"{i + 1}: {float(loss):.4f}  {time.perf_counter() - t0:.1f}s")
    print(len(ledger), "accounts scored")


if __name__ == "__main__":
    main()
