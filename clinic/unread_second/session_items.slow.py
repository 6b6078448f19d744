"""Next-item prediction from shopping sessions with sampled softmax."""
import argparse
from typing import Tuple

import numpy as np
import tensorflow as tf


def get_sessions(n: int, length: int, items: int) -> Tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(31)
    start = rng.integers(0, items, (n, 1))
    hops = rng.integers(1, 50, (n, length)).cumsum(1)
    seq = (start + hops) % items
    return seq[:, :-1].astype("int32"), seq[:, -1:].astype("int64")


class SessionModel(tf.keras.Model):
    def __init__(self, items: int, dim: int):
        super().__init__()
        self.items = items
        self.table = tf.keras.layers.Embedding(items, dim, name="item_table")
        self.mix = tf.keras.layers.Dense(dim, activation="tanh")
        self.proj = tf.keras.layers.Dense(dim)

    def call(self, seq):
        e = self.table(seq)
        recent = e[:, -1]
        mean = tf.reduce_mean(e, axis=1)
        return self.proj(self.mix(tf.concat([recent, mean], -1)))


def train(args: argparse.Namespace) -> None:
    seq, target = get_sessions(args.sessions, args.length, args.items)
    ds = (
        tf.data.Dataset.from_tensor_slices((seq, target))
        .shuffle(50_000)
        .batch(args.batch, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    model = SessionModel(args.items, args.dim)
    model(seq[:2])
    table = model.table.embeddings
    dense_vars = [v for v in model.trainable_variables if v is not table]
    opt = tf.keras.optimizers.Adam(args.lr)
    opt.build(dense_vars + [table])
    running = tf.keras.metrics.Mean()

    @tf.function
    def step(x, y):
        neg = tf.random.uniform((args.negatives,), 0, args.items, tf.int32)
        with tf.GradientTape() as tape:
            q = model(x, training=True)
            pos = tf.reduce_sum(q * model.table(y[:, 0]), -1, keepdims=True)
            negs = tf.matmul(q, model.table(neg), transpose_b=True)
            logits = tf.concat([pos, negs], -1)
            labels = tf.zeros(tf.shape(x)[:1], tf.int32)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        grads = tape.gradient(loss, dense_vars + [table])
        opt.apply_gradients(zip(grads, dense_vars + [table]))
        running.update_state(loss)

    for epoch in range(args.epochs):
        running.reset_state()
        for x, y in ds:
            step(x, y)
        print(f"epoch {epoch}: {float(running.result()):.4f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--items", type=int, default=3_000_000)
    p.add_argument("--dim", type=int, default=48)
    p.add_argument("--sessions", type=int, default=400_000)
    p.add_argument("--length", type=int, default=12)
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--negatives", type=int, default=256)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--table-lr", type=float, default=0.5)
    train(p.parse_args())
