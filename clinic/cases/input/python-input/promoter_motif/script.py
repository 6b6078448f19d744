"""Find promoter regions in bacterial DNA with a small 1-D convnet."""
import random
import time

import keras
import numpy as np
from keras import layers

LENGTH = 600
BASES = "ACGT"
MOTIF = "TATAAT"
COMPLEMENT = str.maketrans("ACGT", "TGCA")


def random_genome(n, seed):
    rng = random.Random(seed)
    seqs, labels = [], []
    for _ in range(n):
        s = "".join(rng.choices(BASES, k=LENGTH))
        y = rng.random() < 0.5
        if y:
            at = rng.randrange(100, LENGTH - 100)
            s = s[:at] + MOTIF + s[at + len(MOTIF):]
        seqs.append(s)
        labels.append(float(y))
    return seqs, np.array(labels, "float32")


def encode(seqs):
    out = []
    for s in seqs:
        rows = []
        for base in s:
            rows.append([1.0 if base == b else 0.0 for b in BASES])
        out.append(rows)
    return np.array(out, dtype="float32")


class Genome(keras.utils.PyDataset):
    def __init__(self, seqs, labels, batch_size=64, **kw):
        super().__init__(**kw)
        self.seqs, self.labels, self.batch_size = seqs, labels, batch_size
        self.rng = random.Random(1)
        self.order = list(range(len(seqs)))

    def __len__(self):
        return len(self.seqs) // self.batch_size

    def __getitem__(self, i):
        idx = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        batch = []
        for k in idx:
            s = self.seqs[k]
            if self.rng.random() < 0.5:
                s = s.translate(COMPLEMENT)[::-1]
            batch.append(s)
        return encode(batch), self.labels[idx]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


def convnet():
    inp = keras.Input((LENGTH, 4))
    h = layers.Conv1D(24, 9, strides=3, activation="relu")(inp)
    h = layers.Conv1D(32, 5, strides=2, activation="relu")(h)
    h = layers.GlobalMaxPooling1D()(h)
    h = layers.Dense(32, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))


if __name__ == "__main__":
    keras.utils.set_random_seed(11)
    seqs, labels = random_genome(2560, seed=4)
    data = Genome(seqs, labels)
    model = convnet()
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    epochs = 3
    t0 = time.time()
    h = model.fit(data, epochs=epochs, verbose=0)
    t = time.time() - t0
    print("final loss %.4f" % h.history["loss"][-1])
    print("WORK", epochs * len(data))
    print("TRAIN_SECONDS %.3f" % t)
