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
    for n in range(len(seqs)):
        s = seqs[n]
        for i in range(len(s)):
            for d in range(1, reach + 1):
                if i + d < len(s):
                    table[n, INDEX[s[i]] * 20 + INDEX[s[i + d]]] += 1.0 / d
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
