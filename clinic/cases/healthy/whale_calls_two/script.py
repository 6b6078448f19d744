"""Two-view contrastive pretraining on whale call embeddings: large batches, projection heads, train_on_batch."""
import argparse
import time

import numpy as np
import tensorflow as tf


class PairModel(tf.keras.Model):
    def __init__(self, width):
        super().__init__()
        self.encoder = tf.keras.Sequential(
            [tf.keras.layers.Dense(width, activation="relu") for _ in range(3)])
        self.head = tf.keras.layers.Dense(96)

    def call(self, views):
        a, b = tf.unstack(views, axis=1)
        za = tf.math.l2_normalize(self.head(self.encoder(a)), -1)
        zb = tf.math.l2_normalize(self.head(self.encoder(b)), -1)
        return tf.matmul(za, zb, transpose_b=True) * 10.0


def call_library(n, dims, seed=0):
    rng = np.random.default_rng(seed)
    species = rng.normal(size=(12, dims)).astype(np.float32)
    return species[rng.integers(0, 12, n)] + 0.5 * rng.standard_normal((n, dims), dtype=np.float32)


def views(bank, order, rng):
    x = bank[order]
    keep = rng.random((len(x), 2, 1), dtype=np.float32) * 0.2 + 0.9
    return x[:, None] * keep


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=2048)
    p.add_argument("--steps", type=int, default=36)
    p.add_argument("--width", type=int, default=512)
    a = p.parse_args()
    rng = np.random.default_rng(3)
    bank = call_library(16384, 384)
    model = PairModel(a.width)
    model.compile(optimizer=tf.keras.optimizers.Adam(3e-4),
                  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    target = np.arange(a.batch, dtype=np.int32)
    begin = time.perf_counter()
    for step in range(a.steps):
        x = views(bank, rng.integers(0, len(bank), a.batch), rng)
        loss = model.train_on_batch(x, target)
        if step % 8 == 0:
            print(f"step {step}: contrastive loss {float(loss):.4f}")
    print("WORK", a.steps * a.batch)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


if __name__ == "__main__":
    main()
