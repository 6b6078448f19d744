"""Promoter / non-promoter classification from raw DNA strings."""
import argparse

import keras
import numpy as np
import tensorflow as tf
from keras import layers

ALPHABET = "ACGT"


def simulate(n, length, seed):
    rng = np.random.default_rng(seed)
    letters = np.frombuffer(ALPHABET.encode(), dtype="S1")
    genome = letters[rng.integers(0, 4, (n, length))]
    labels = rng.integers(0, 2, n)
    motif = np.frombuffer(b"TATAAAAG", dtype="S1")
    for i in np.flatnonzero(labels):
        at = rng.integers(0, length - len(motif))
        genome[i, at:at + len(motif)] = motif
    return [row.tobytes().decode() for row in genome], labels.astype("float32")


def encode(sequences, length):
    table = np.zeros((256, len(ALPHABET)), dtype="uint8")
    for k, letter in enumerate(ALPHABET):
        table[ord(letter), k] = 1
    codes = np.frombuffer("".join(sequences).encode(), dtype="uint8")
    return table[codes.reshape(len(sequences), length)]


def dataset(x, y, batch_size, training):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        ds = ds.shuffle(8192)
    return ds.batch(batch_size).prefetch(tf.data.AUTOTUNE)


def build(length, filters):
    inputs = keras.Input((length, len(ALPHABET)))
    x = layers.Conv1D(filters, 12, activation="relu")(inputs)
    x = layers.MaxPooling1D(4)(x)
    x = layers.Conv1D(filters, 6, activation="relu")(x)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dropout(0.3)(x)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--sequences", type=int, default=60_000)
    p.add_argument("--length", type=int, default=600)
    p.add_argument("--filters", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--epochs", type=int, default=2)
    return p.parse_args()


def main():
    args = parse()
    sequences, labels = simulate(args.sequences, args.length, seed=4)
    x = encode(sequences, args.length)
    cut = int(0.9 * len(x))
    train = dataset(x[:cut], labels[:cut], args.batch_size, True)
    test = dataset(x[cut:], labels[cut:], args.batch_size, False)
    model = build(args.length, args.filters)
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(train, epochs=args.epochs, verbose=2)
    print(model.evaluate(test, verbose=0, return_dict=True))


if __name__ == "__main__":
    main()
