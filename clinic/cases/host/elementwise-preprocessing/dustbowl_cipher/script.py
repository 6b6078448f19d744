"""word2vec (skip-gram with negatives) on the log of a fictional telegraph office."""
import random
import time

import numpy as np
import tensorflow as tf

WORDS, RADIUS, DECOYS, DIM = 3000, 4, 4, 32


def telegraph_log(n, seed=41):
    g = np.random.default_rng(seed)
    return np.minimum(g.zipf(1.3, n), WORDS) - 1


class Pairs:
    """(centre, true neighbour, decoys...) for every place in the log."""

    def __init__(self, log, seed=5):
        self.log = log.tolist()
        self.dice = random.Random(seed)

    def decoys(self, true):
        out = []
        while len(out) < DECOYS:
            w = self.dice.randrange(WORDS)
            if w != true:
                out.append(w)
        return out

    def build(self):
        rows = []
        for i in range(RADIUS, len(self.log) - RADIUS):
            for j in range(i - RADIUS, i + RADIUS + 1):
                if j != i:
                    rows.append([self.log[i], self.log[j]] + self.decoys(self.log[j]))
        return np.array(rows, dtype=np.int32)


class Skipgram(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.centre = tf.keras.layers.Embedding(WORDS, DIM)
        self.around = tf.keras.layers.Embedding(WORDS, DIM)

    def call(self, row):
        c = self.centre(row[:, :1])
        a = self.around(row[:, 1:])
        return tf.reduce_sum(c * a, -1)


def nce(y, logits):
    want = tf.concat([tf.ones_like(logits[:, :1]), tf.zeros_like(logits[:, 1:])], 1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(want, logits), -1)


def main():
    rows = Pairs(telegraph_log(230_000)).build()
    print(len(rows), "pairs")
    model = Skipgram()
    model.compile(tf.keras.optimizers.Adam(2e-3), nce)
    blocks = rows[:len(rows) // 4096 * 4096].reshape(-1, 4096, 2 + DECOYS)
    ds = (tf.data.Dataset.from_tensor_slices(blocks)
          .map(lambda r: (r, r[:, :1])).prefetch(2))
    model.fit(ds.take(2), verbose=0)
    t = time.perf_counter()
    model.fit(ds, epochs=1, verbose=2)
    t = time.perf_counter() - t
    print("WORK", len(rows) // 4096 * 4096)
    print("TRAIN_SECONDS", round(t, 3))


if __name__ == "__main__":
    main()
