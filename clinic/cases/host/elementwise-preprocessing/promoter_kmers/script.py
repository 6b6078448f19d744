"""Promoter or not: k-mer counts of DNA reads into a dense classifier."""
import time

import keras
import numpy as np

ALPHABET = "ACGT"
K = 4


def reads(n=9000, length=520, seed=21):
    rng = np.random.default_rng(seed)
    letters = rng.integers(0, 4, (n, length))
    label = rng.integers(0, 2, n)
    rich = (label[:, None] == 1) & (rng.random((n, length)) < 0.15)
    letters = np.where(rich, rng.integers(1, 3, (n, length)), letters)
    table = np.array(list(ALPHABET))
    return ["".join(row) for row in table[letters]], label.astype("float32")


class KmerCounter:
    def __init__(self, k):
        self.k = k
        self.index = {}
        for i in range(4 ** k):
            word, v = "", i
            for _ in range(k):
                word = ALPHABET[v % 4] + word
                v //= 4
            self.index[word] = i

    def transform(self, seqs):
        counts = np.zeros((len(seqs), len(self.index)), np.float32)
        for row, s in enumerate(seqs):
            for p in range(len(s) - self.k + 1):
                counts[row, self.index[s[p:p + self.k]]] += 1.0
        return counts


def classifier(width):
    return keras.Sequential([
        keras.Input((width,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dropout(0.4),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ])


def main():
    seqs, y = reads()
    t0 = time.perf_counter()
    counts = KmerCounter(K).transform(seqs)
    mean, std = counts.mean(0), counts.std(0) + 1e-6
    x = (counts - mean) / std
    print("features ready", x.shape, "%.1fs" % (time.perf_counter() - t0))
    model = classifier(x.shape[1])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, batch_size=128, epochs=14, verbose=2)
    spent = time.perf_counter() - t0
    print("WORK", len(x) * 14)
    print("TRAIN_SECONDS %.2f" % spent)


main()
