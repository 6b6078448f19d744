"""Cashmere or not?  Near-infrared spectra of fibre tufts.

Multiplicative scatter correction first (in double precision, the usual recipe
of chemometrics), then a 1-D convolutional net.
"""
import os
import tempfile
import time

import numpy as np
import keras
from keras import layers

FIBRES = ("cashmere", "yak", "merino", "viscose")
POINTS = 512
TUFTS = 3840


def measure(n, rng):
    axis = np.linspace(0.0, 1.0, POINTS)
    common = np.exp(-((axis - 0.3) / 0.1) ** 2) + 0.7 * np.exp(-((axis - 0.75) / 0.08) ** 2)
    kind = rng.integers(0, len(FIBRES), size=n)
    bumps = np.stack([np.exp(-((axis - 0.2 - 0.17 * k) / 0.015) ** 2) for k in range(len(FIBRES))])
    spectra = common + 0.15 * bumps[kind] + 0.03 * rng.normal(size=(n, POINTS))
    slope = rng.uniform(0.6, 1.4, size=(n, 1))
    offset = rng.normal(0.0, 0.3, size=(n, 1))
    return offset + slope * spectra, kind


def scatter_correction(spectra):
    """Regress every spectrum on the mean spectrum, remove slope and offset."""
    spectra = np.asarray(spectra, dtype=np.float64)
    mean = spectra.mean(axis=0)
    centred = mean - mean.mean()
    row_mean = spectra.mean(axis=1, keepdims=True)
    slope = ((spectra - row_mean) @ centred)[:, None] / (centred @ centred)
    corrected = (spectra - row_mean) / slope + mean.mean()
    corrected = (corrected - corrected.mean(axis=0)) / corrected.std(axis=0)
    return corrected.astype(np.float32)


class TuftBatches(keras.utils.PyDataset):
    """Shuffled batches, each with a fresh bit of baseline drift."""

    def __init__(self, x, y, batch, seed, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch = x, y, batch
        self.rng = np.random.default_rng(seed)
        self.order = self.rng.permutation(len(x))
        self.ramp = np.linspace(-1.0, 1.0, POINTS, dtype="float32")

    def __len__(self):
        return len(self.x) // self.batch

    def __getitem__(self, index):
        take = self.order[index * self.batch:(index + 1) * self.batch]
        drift = self.rng.normal(0.0, 0.1, size=(len(take), 1)).astype("float32")
        return (self.x[take] + drift * self.ramp)[..., None], self.y[take]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


class LossTrail(keras.callbacks.Callback):
    """Smoothed loss of every batch, for the figure in the thesis."""

    def __init__(self, decay=0.95):
        super().__init__()
        self.decay, self.trail, self.value = decay, [], None

    def on_train_batch_end(self, batch, logs=None):
        loss = float(logs["loss"])
        self.value = loss if self.value is None else self.decay * self.value + (1 - self.decay) * loss
        self.trail.append(self.value)


def fibre_net():
    inp = keras.Input((POINTS, 1))
    x = inp
    for filters, width in ((48, 9), (80, 7), (112, 5)):
        x = layers.Conv1D(filters, width, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inp, layers.Dense(len(FIBRES), activation="softmax")(x))


if __name__ == "__main__":
    keras.utils.set_random_seed(12)
    raw, kind = measure(TUFTS + 640, np.random.default_rng(12))
    x = scatter_correction(raw)
    y = kind.astype("int32")

    net = fibre_net()
    net.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    folder = tempfile.mkdtemp(prefix="cashmere_")
    trail = LossTrail()
    keep = keras.callbacks.ModelCheckpoint(
        os.path.join(folder, "epoch{epoch}.weights.h5"), save_weights_only=True)

    begin = time.perf_counter()
    net.fit(TuftBatches(x[:TUFTS], y[:TUFTS], 64, seed=1), epochs=3, verbose=2,
            callbacks=[trail, keep])
    seconds = time.perf_counter() - begin

    print("held-out", net.evaluate(x[TUFTS:, :, None], y[TUFTS:], batch_size=64, verbose=0))
    print("smoothed loss at the end", round(trail.trail[-1], 4))
    print(f"TRAIN_SECONDS {seconds:.2f}")
