"""Classify short recordings of ten bird species."""
import math
import time

import keras
import numpy as np
from keras import layers

RATE = 8000
FRAME = 256
HOP = 80


def synth(n, rng):
    t = np.arange(RATE) / RATE
    label = rng.integers(0, 10, n)
    clips = np.empty((n, RATE), np.float32)
    for i, k in enumerate(label):
        f = 700 + 250 * k
        clips[i] = np.sin(2 * np.pi * (f + 60 * np.sin(2 * np.pi * 6 * t)) * t) + 0.5 * rng.standard_normal(RATE)
    return clips, label.astype(np.int32)


def spectrogram(wave):
    window = np.hanning(FRAME).astype(np.float32)
    frames = []
    for start in range(0, len(wave) - FRAME + 1, HOP):
        piece = wave[start:start + FRAME] * window
        power = np.abs(np.fft.rfft(piece)) ** 2
        frames.append(np.log(power[1:65] + 1e-6))
    return np.stack(frames).astype(np.float32)


class Clips(keras.utils.PyDataset):
    def __init__(self, waves, labels, batch_size, **kw):
        super().__init__(**kw)
        self.waves, self.labels, self.batch_size = waves, labels, batch_size
        self.order = np.arange(len(labels))
        self.rng = np.random.default_rng(7)

    def __len__(self):
        return math.ceil(len(self.labels) / self.batch_size)

    def __getitem__(self, idx):
        take = self.order[idx * self.batch_size:(idx + 1) * self.batch_size]
        shift = self.rng.integers(0, 800, len(take))
        x = np.stack([spectrogram(np.roll(self.waves[i], s)) for i, s in zip(take, shift)])
        return x[..., None], self.labels[take]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


def network(frames):
    return keras.Sequential([
        keras.Input((frames, 64, 1)),
        layers.Conv2D(8, 3, strides=2, activation="relu"),
        layers.Conv2D(16, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ])


def main(epochs=5):
    keras.utils.set_random_seed(2)
    waves, labels = synth(960, np.random.default_rng(0))
    data = Clips(waves, labels, batch_size=32)
    model = network((RATE - FRAME) // HOP + 1)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    start = time.time()
    model.fit(data, epochs=epochs, verbose=2)
    print("WORK", epochs * len(labels))
    print("TRAIN_SECONDS %.2f" % (time.time() - start))


if __name__ == "__main__":
    main()
