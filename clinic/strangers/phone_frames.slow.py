"""Phone classifier on filter-bank features, computed from the waveform batch by batch in a keras PyDataset."""
import math
import time

import keras
import numpy as np

RATE, FRAME, HOP, BANDS = 8000, 200, 80, 24


def triangle_bank():
    edges = np.linspace(0, FRAME // 2, BANDS + 2)
    bins = np.arange(FRAME // 2 + 1)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).T.astype("float32")


class Utterances(keras.utils.PyDataset):
    def __init__(self, count, batch, **kw):
        super().__init__(**kw)
        rng = np.random.default_rng(14)
        self.label = rng.integers(0, 10, count)
        t = np.arange(RATE // 2) / RATE
        tone = np.sin(2 * np.pi * (200 + 150 * self.label[:, None]) * t)
        self.wave = (tone + rng.normal(0, 0.8, tone.shape)).astype("float32")
        self.batch, self.bank, self.window = batch, triangle_bank(), np.hanning(FRAME).astype("float32")

    def __len__(self):
        return math.ceil(len(self.label) / self.batch)

    def log_bands(self, wave):
        rows = []
        for start in range(0, len(wave) - FRAME + 1, HOP):
            frame = wave[start:start + FRAME] * self.window
            power = np.abs(np.fft.rfft(frame)) ** 2
            rows.append([math.log(float(np.dot(power, self.bank[:, b])) + 1e-6) for b in range(BANDS)])
        return np.array(rows, "float32")

    def __getitem__(self, i):
        part = slice(i * self.batch, (i + 1) * self.batch)
        return np.stack([self.log_bands(w) for w in self.wave[part]]), self.label[part]


def classifier():
    i = keras.Input((None, BANDS))
    h = keras.layers.Conv1D(48, 5, activation="relu")(i)
    h = keras.layers.Conv1D(48, 5, strides=2, activation="relu")(h)
    h = keras.layers.GlobalMaxPooling1D()(h)
    return keras.Model(i, keras.layers.Dense(10, activation="softmax")(h))


if __name__ == "__main__":
    data = Utterances(1280, 32)
    model = classifier()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    t0 = time.perf_counter()
    model.fit(data, epochs=3, verbose=2)
    print(f"{time.perf_counter() - t0:.1f}s")
