"""Promoter prediction from DNA: 4-mer profile of both strands and a small network."""
import itertools

import keras
import numpy as np

K = 4
BASES = "ACGT"
WORDS = {"".join(w): i for i, w in enumerate(itertools.product(BASES, repeat=K))}
PAIR = str.maketrans("ACGT", "TGCA")


def genome(n=12_000, length=1100, seed=13):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    p = np.where(y[:, None], [[0.2, 0.3, 0.3, 0.2]], [[0.25, 0.25, 0.25, 0.25]])
    cut = p.cumsum(1)
    u = rng.random((n, length))
    codes = (u > cut[:, :1]).astype("uint8") + (u > cut[:, 1:2]) + (u > cut[:, 2:3])
    letters = np.frombuffer(BASES.encode(), "uint8")[codes]
    return [row.tobytes().decode() for row in letters], y.astype("float32")


def profile(sequence):
    counts = np.zeros(len(WORDS), "float32")
    for i in range(len(sequence) - K + 1):
        word = sequence[i : i + K]
        counts[WORDS[word]] += 1.0
        counts[WORDS[word[::-1].translate(PAIR)]] += 1.0
    return counts / len(sequence)


def profiles(sequences):
    return np.stack([profile(s) for s in sequences])


class Rescale(keras.layers.Layer):
    """Learned scaling of the word frequencies."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x):
        return x * self.scale * 100.0


def main():
    keras.utils.set_random_seed(1)
    sequences, y = genome()
    x = profiles(sequences)
    model = keras.Sequential(
        [keras.Input((len(WORDS),)), Rescale(), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)]
    )
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss=loss)
    h = model.fit(x, y, batch_size=128, epochs=5, verbose=2, validation_split=0.1)
    print("loss", h.history["loss"][-1])


main()
