"""Arrhythmia beats with a PyDataset and a small 1-D CNN."""
import math
import time
from dataclasses import dataclass

import keras
import numpy as np


@dataclass
class Config:
    beats: int = 6000
    length: int = 256
    classes: int = 5
    batch: int = 64
    epochs: int = 4
    window: int = 25


class BeatSequence(keras.utils.PyDataset):
    """Removes baseline wander, clips and scales every beat."""

    def __init__(self, signal, label, cfg, **kw):
        super().__init__(**kw)
        self.signal, self.label, self.cfg = signal, label, cfg
        self.order = np.arange(len(signal))

    def __len__(self):
        return math.ceil(len(self.signal) / self.cfg.batch)

    def __getitem__(self, i):
        ids = self.order[i * self.cfg.batch:(i + 1) * self.cfg.batch]
        return self.prepare(self.signal[ids])[..., None], self.label[ids]

    def prepare(self, beats):
        half = self.cfg.window // 2
        out = np.empty_like(beats)
        for b in range(len(beats)):
            padded = np.pad(beats[b], (half, half), mode="edge")
            acc = float(padded[:self.cfg.window].sum())
            for t in range(self.cfg.length):
                out[b, t] = beats[b, t] - acc / self.cfg.window
                if t + self.cfg.window < len(padded):
                    acc += float(padded[t + self.cfg.window]) - float(padded[t])
            out[b] = np.clip(out[b], -3, 3) / (out[b].std() + 1e-6)
        return out

    def on_epoch_end(self):
        np.random.default_rng(len(self.order)).shuffle(self.order)


def synthetic_beats(cfg):
    rng = np.random.default_rng(7)
    t = np.linspace(0, 1, cfg.length)
    y = rng.integers(0, cfg.classes, cfg.beats)
    centre = 0.3 + 0.08 * y[:, None] + rng.normal(0, 0.01, (cfg.beats, 1))
    x = np.exp(-((t - centre) ** 2) / 0.001) + 0.5 * np.sin(2 * np.pi * t * rng.uniform(0.2, 0.9, (cfg.beats, 1)))
    return (x + rng.normal(0, 0.05, x.shape)).astype("float32"), y.astype("int32")


def network(cfg):
    return keras.Sequential([
        keras.Input((cfg.length, 1)),
        keras.layers.Conv1D(16, 7, strides=2, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(cfg.classes, activation="softmax"),
    ])


if __name__ == "__main__":
    cfg = Config()
    x, y = synthetic_beats(cfg)
    data = BeatSequence(x, y, cfg)
    net = network(cfg)
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    began = time.perf_counter()
    net.fit(data, epochs=cfg.epochs, verbose=2)
    seconds = time.perf_counter() - began
    print("WORK", cfg.beats * cfg.epochs)
    print("TRAIN_SECONDS %.3f" % seconds)
