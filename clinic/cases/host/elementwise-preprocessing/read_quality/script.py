"""Separates two organisms from sequencing reads with base qualities (FASTQ-like)."""
import time

import numpy as np
import keras
from keras import layers

LENGTH = 180
BASES = "ACGT"


def simulate_fastq(n, seed=4):
    """Returns a list of (sequence, quality string, label)."""
    rng = np.random.default_rng(seed)
    profile = np.array([[0.34, 0.16, 0.16, 0.34], [0.22, 0.28, 0.28, 0.22]])
    labels = rng.integers(0, 2, n)
    edges = profile.cumsum(1)[labels][:, None, :3]
    called = (rng.random((n, LENGTH, 1)) > edges).sum(-1)
    bases = np.frombuffer(BASES.encode(), "uint8")[called]
    quals = (33 + np.clip(rng.normal(32, 5, (n, LENGTH)), 2, 41)).astype("uint8")
    return [(b.tobytes().decode(), q.tobytes().decode(), int(c)) for b, q, c in zip(bases, quals, labels)]


class ReadEncoder:
    """One-hot bases weighted by the probability that the call is right, plus position."""

    channels = len(BASES) + 2

    def __init__(self, length):
        self.length = length

    def confidence(self, symbol):
        return 1.0 - 10.0 ** (-(ord(symbol) - 33) / 10.0)

    def encode(self, seq, qual):
        out = np.zeros((self.length, self.channels), "float32")
        for pos, (base, q) in enumerate(zip(seq, qual)):
            p = self.confidence(q)
            out[pos, BASES.index(base)] = p
            out[pos, 4] = 1.0 - p
            out[pos, 5] = pos / self.length
        return out

    def transform(self, records):
        x = np.stack([self.encode(s, q) for s, q, _ in records])
        y = np.array([label for _, _, label in records], "float32")
        return x, y


def classifier():
    m = keras.Sequential([
        layers.Input((LENGTH, ReadEncoder.channels)),
        layers.Conv1D(16, 9, strides=3, activation="relu"),
        layers.Conv1D(16, 5, strides=2, activation="relu"),
        layers.GlobalAveragePooling1D(),
        layers.Dense(1, activation="sigmoid"),
    ])
    m.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return m


def main():
    records = simulate_fastq(28000)
    t0 = time.time()
    x, y = ReadEncoder(LENGTH).transform(records)
    print("encoded", x.shape)
    classifier().fit(x, y, batch_size=192, epochs=1, verbose=2)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))


if __name__ == "__main__":
    main()
