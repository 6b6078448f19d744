"""Does a peptide bind? Counts of residue pairs at distances into a small classifier."""
import random

import numpy as np
import keras

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
INDEX = {r: i for i, r in enumerate(RESIDUES)}


def invent(n):
    rnd = random.Random(15)
    seqs = ["".join(rnd.choices(RESIDUES, k=60)) for _ in range(n)]
    return seqs, np.array([float(s.count("W") > 2) for s in seqs], "float32")


def pair_counts(seqs, reach=6):
    table = np.zeros((len(seqs), 400), "float32")
    codes = np.zeros(128, "int64")
    codes[[ord(r) for r in RESIDUES]] = np.arange(20)
    s = codes[np.frombuffer("".join(seqs).encode(), "uint8")].reshape(len(seqs), -1)
    base = np.arange(len(seqs))[:, None] * 400
    for d in range(1, reach + 1):
        cell = (base + s[:, :-d] * 20 + s[:, d:]).ravel()
        table += np.bincount(cell, minlength=table.size).reshape(table.shape) / d
    return table


def binder():
    m = keras.Sequential([
        keras.Input((400,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dropout(0.2, seed=1),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
    m.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return m


def main():
    keras.utils.set_random_seed(15)
    seqs, binds = invent(40000)
    table = pair_counts(seqs)
    m = binder()
    m.fit(table, binds, batch_size=128, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
