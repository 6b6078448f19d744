"""Heartbeat (single lead) classifier after a paper's recipe, which states updates per epoch."""
import argparse
import time

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--beats", type=int, default=7200)
parser.add_argument("--length", type=int, default=120)
parser.add_argument("--updates-per-epoch", type=int, default=1800)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=5e-4)
opt = parser.parse_args()


def beats(n, length, seed=70):
    g = np.random.default_rng(seed)
    kind = g.integers(0, 5, n)
    t = np.linspace(-1, 1, length)[None]
    wave = np.exp(-((t - 0.1 * kind[:, None]) ** 2) / (0.01 + 0.01 * kind[:, None]))
    return (wave + 0.2 * g.normal(size=(n, length))).astype("float32")[..., None], kind.astype("int32")


def residual(x, width):
    y = layers.Conv1D(width, 5, padding="same", activation="relu")(x)
    y = layers.Conv1D(width, 5, padding="same")(y)
    if x.shape[-1] != width:
        x = layers.Conv1D(width, 1)(x)
    return layers.MaxPooling1D(2)(layers.ReLU()(layers.Add()([x, y])))


def cardiologist(length):
    inp = h = layers.Input((length, 1))
    for width in (8, 12, 16):
        h = residual(h, width)
    h = layers.GlobalAveragePooling1D()(h)
    return keras.Model(inp, layers.Dense(5, activation="softmax")(h))


def steps_to_batch(n):
    return max(1, n // opt.updates_per_epoch)


x, y = beats(opt.beats, opt.length)
model = cardiologist(opt.length)
model.compile(keras.optimizers.Adam(opt.lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
size = steps_to_batch(len(x))
model.fit(x[: size * 5], y[: size * 5], batch_size=size, verbose=0)
t = time.perf_counter()
model.fit(x, y, batch_size=size, epochs=opt.epochs, verbose=2)
t = time.perf_counter() - t
print("WORK", len(x) * opt.epochs)
print("TRAIN_SECONDS", round(t, 3))
