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
        letters = np.frombuffer("".join(seqs).encode(), np.uint8).reshape(len(seqs), -1)
        digit = np.zeros(256, np.int64)
        digit[[ord(c) for c in ALPHABET]] = np.arange(4)
        digits = digit[letters]
        span = digits.shape[1] - self.k + 1
        code = sum(digits[:, i:i + span] * 4 ** (self.k - 1 - i) for i in range(self.k))
        code += np.arange(len(seqs))[:, None] * len(self.index)
        counts = np.bincount(code.ravel(), minlength=len(seqs) * len(self.index))
        return counts.reshape(len(seqs), -1).astype(np.float32)


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
