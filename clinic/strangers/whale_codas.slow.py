"""Sperm whale coda classification: click trains are rendered to a time/amplitude map on the fly."""
import math
import time

import numpy as np
import keras
from keras import layers

N_CODAS = 2400
N_TYPES = 6
BINS = 160
CHANNELS = 4


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    codas = []
    for _ in range(n):
        kind = int(rng.integers(N_TYPES))
        clicks = 5 + kind
        times = np.cumsum(rng.uniform(0.05, 0.15 + 0.02 * kind, clicks))
        amps = rng.uniform(0.4, 1.0, clicks)
        codas.append((times.astype("float32"), amps.astype("float32"), kind))
    return codas


class CodaSequence(keras.utils.PyDataset):
    def __init__(self, codas, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.codas = codas
        self.batch_size = batch_size
        self.order = np.arange(len(codas))

    def __len__(self):
        return math.ceil(len(self.codas) / self.batch_size)

    def on_epoch_end(self):
        np.random.shuffle(self.order)

    def render(self, times, amps):
        out = np.zeros((BINS, CHANNELS), "float32")
        jitter = np.random.uniform(-0.01, 0.01)
        for t, a in zip(times, amps):
            for b in range(BINS):
                d = b / 100.0 - (t + jitter)
                for c in range(CHANNELS):
                    width = 0.005 * (c + 1)
                    if abs(d) < 4 * width:
                        out[b, c] += a * math.exp(-0.5 * (d / width) ** 2)
        return out

    def __getitem__(self, index):
        ids = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        x = np.stack([self.render(*self.codas[i][:2]) for i in ids])
        y = np.array([self.codas[i][2] for i in ids])
        return x, y


def coda_net():
    model = keras.Sequential(name="coda_net")
    model.add(layers.Input((BINS, CHANNELS)))
    for f in (32, 64, 64):
        model.add(layers.Conv1D(f, 5, padding="same"))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
        model.add(layers.MaxPooling1D(2))
    model.add(layers.GlobalMaxPooling1D())
    model.add(layers.Dense(N_TYPES))
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    train = CodaSequence(simulate(N_CODAS, 0), 48)
    net = coda_net()
    net.compile(
        optimizer=keras.optimizers.AdamW(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    epochs = 3
    tic = time.time()
    net.fit(train, epochs=epochs, verbose=2)
    toc = time.time()
    print(f"WORK {N_CODAS * epochs}")
    print(f"TRAIN_SECONDS {toc - tic:.2f}")
