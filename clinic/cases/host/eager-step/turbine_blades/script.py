"""Remaining life of turbine blades from vibration histories (GRU)."""
import argparse
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers


def settings():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=21)
    p.add_argument("--units", type=int, default=48)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--careful", type=int, default=1)
    return p.parse_args([])


def prepare(cfg):
    keras.utils.set_random_seed(cfg.seed)
    if cfg.careful:
        tf.config.run_functions_eagerly(True)
    return np.random.default_rng(cfg.seed)


def histories(rng, n=2400, steps=12, channels=8):
    wear = rng.uniform(0, 1, n)
    x = rng.normal(size=(n, steps, channels)) * (0.5 + wear[:, None, None] * np.linspace(0, 1, steps)[None, :, None])
    return x.astype("float32"), (1 - wear).astype("float32")


class LifeModel(keras.Model):
    def __init__(self, units):
        super().__init__()
        self.norm = layers.LayerNormalization()
        self.rnn = layers.GRU(units, return_sequences=True)
        self.pool = layers.GlobalAveragePooling1D()
        self.deep = [layers.Dense(64, activation="gelu") for _ in range(3)]
        self.out = layers.Dense(1)

    def call(self, x):
        h = self.pool(self.rnn(self.norm(x)))
        for layer in self.deep:
            h = layer(h)
        return self.out(h)


cfg = settings()
rng = prepare(cfg)
x, y = histories(rng)
model = LifeModel(cfg.units)
model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss="huber", metrics=["mae"])
t0 = time.time()
model.fit(x, y, batch_size=64, epochs=cfg.epochs, verbose=2)
print(f"done in {time.time() - t0:.1f} s")
