"""Does a stretch of DNA hold a promoter?  Random strand and random shift at every draw."""
import math
import random
import time

import numpy as np
import keras
from keras import layers

LETTERS = "ACGT"
COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A"}
COLUMN = {"A": 0, "C": 1, "G": 2, "T": 3}
TATA = "TATAAAAG"


def fake_genome_windows(n, length, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 4, (n, length))
    rows = np.frombuffer(LETTERS.encode(), "S1")[codes]
    seqs = [r.tobytes().decode() for r in rows]
    labels = rng.integers(0, 2, n)
    for i in np.flatnonzero(labels):
        at = int(rng.integers(100, length - 120))
        seqs[i] = seqs[i][:at] + TATA + seqs[i][at + len(TATA):]
    return seqs, labels.astype("float32")


class PromoterWindows(keras.utils.PyDataset):
    def __init__(self, seqs, labels, window, batch_size, augment=True, **kw):
        super().__init__(**kw)
        self.seqs, self.labels = seqs, labels
        self.window, self.batch_size, self.augment = window, batch_size, augment
        self.order = list(range(len(seqs)))
        self.rnd = random.Random(9)

    def __len__(self):
        return math.ceil(len(self.seqs) / self.batch_size)

    def on_epoch_end(self):
        self.rnd.shuffle(self.order)

    def cut(self, seq):
        start = self.rnd.randrange(len(seq) - self.window + 1) if self.augment else 0
        seq = seq[start:start + self.window]
        if self.augment and self.rnd.random() < 0.5:
            seq = "".join(COMPLEMENT[b] for b in reversed(seq))
        return seq

    def one_hot(self, seq):
        x = np.zeros((self.window, 4), "float32")
        for pos, base in enumerate(seq):
            x[pos, COLUMN[base]] = 1.0
        return x

    def __getitem__(self, k):
        rows = self.order[k * self.batch_size:(k + 1) * self.batch_size]
        x = np.stack([self.one_hot(self.cut(self.seqs[i])) for i in rows])
        return x, self.labels[rows]


def make_model(window):
    x = inputs = keras.Input((window, 4))
    x = layers.Conv1D(24, 11, strides=6, activation="relu")(x)
    x = layers.MaxPooling1D(4)(x)
    x = layers.Conv1D(24, 5, activation="relu")(x)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dropout(0.2)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def run(n=6400, length=1000, window=800, batch_size=64, epochs=6):
    keras.utils.set_random_seed(1)
    seqs, labels = fake_genome_windows(n, length)
    train = PromoterWindows(seqs, labels, window, batch_size)
    model = make_model(window)
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="binary_crossentropy", metrics=["AUC"])
    begin = time.perf_counter()
    model.fit(train, epochs=epochs, verbose=2)
    return len(train) * epochs, time.perf_counter() - begin


steps, seconds = run()
print("WORK", steps)
print("TRAIN_SECONDS", round(seconds, 3))
