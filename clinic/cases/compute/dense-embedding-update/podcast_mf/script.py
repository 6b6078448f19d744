"""Matrix factorisation for podcast ratings."""
import time

import keras
import numpy as np
from keras import layers, ops, regularizers

LISTENERS = 300_000
SHOWS = 8_000
RANK = 16


class Factors(keras.Model):
    def __init__(self, l2=1e-6):
        super().__init__()
        self.listener = layers.Embedding(LISTENERS, RANK, embeddings_regularizer=regularizers.L2(l2))
        self.show = layers.Embedding(SHOWS, RANK, embeddings_regularizer=regularizers.L2(l2))
        self.listener_bias = layers.Embedding(LISTENERS, 1)
        self.show_bias = layers.Embedding(SHOWS, 1)

    def call(self, pair):
        who, what = pair[:, 0], pair[:, 1]
        dot = ops.sum(self.listener(who) * self.show(what), axis=1, keepdims=True)
        return dot + self.listener_bias(who) + self.show_bias(what)


def ratings(n, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.integers(0, LISTENERS, n)
    what = (SHOWS * rng.random(n) ** 2).astype(np.int64)
    taste = rng.normal(size=(LISTENERS, 3)).astype(np.float32)
    kind = rng.normal(size=(SHOWS, 3)).astype(np.float32)
    stars = 0.6 * (taste[who] * kind[what]).sum(1) + rng.normal(0, 0.2, n)
    return np.stack([who, what], 1).astype(np.int32), stars.astype(np.float32)[:, None]


def main():
    keras.utils.set_random_seed(12)
    pairs, stars = ratings(160_000)
    model = Factors()
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="mse")
    epochs = 1
    start = time.perf_counter()
    model.fit(pairs, stars, batch_size=512, epochs=epochs, verbose=2)
    seconds = time.perf_counter() - start
    print("WORK", epochs * len(pairs))
    print("TRAIN_SECONDS %.2f" % seconds)


if __name__ == "__main__":
    main()
