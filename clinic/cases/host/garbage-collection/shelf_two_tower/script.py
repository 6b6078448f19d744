"""Two-tower retrieval: which shelf item goes with which shopper."""
import gc
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

N_ITEMS, N_USERS, N_PAIRS, D = 40_000, 8_000, 200_000, 48
BATCH, STEPS = 512, 130


class Item:
    __slots__ = ("sku", "title", "tags", "price")

    def __init__(self, sku, tags, price):
        self.sku, self.title, self.tags, self.price = sku, "item-%d" % sku, tags, price


def load_catalogue(rng):
    tags = rng.integers(0, D, (N_ITEMS, 4)).tolist()
    price = rng.uniform(1, 100, N_ITEMS).tolist()
    return [Item(i, t, p) for i, (t, p) in enumerate(zip(tags, price))]


def item_matrix(items):
    m = np.zeros((len(items), D), np.float32)
    tags = np.array([it.tags for it in items])
    m[np.arange(len(items))[:, None], tags] = 1.0
    return m


def tower(name):
    return keras.Sequential([
        layers.Input((D,)),
        layers.Dense(256, activation="relu"),
        layers.Dense(64),
        layers.UnitNormalization(),
    ], name=name)


class Feeder:
    """Cuts batches out of the pair table and tidies up behind itself."""

    def __init__(self, users, items, pairs, rng):
        self.users, self.items, self.pairs, self.rng = users, items, pairs, rng
        self.held = {}

    def take(self, n):
        rows = self.pairs[self.rng.integers(0, len(self.pairs), n)]
        self.held["user"] = self.users[rows[:, 0]]
        self.held["item"] = self.items[rows[:, 1]]
        return self.held["user"], self.held["item"]

    def release(self):
        self.held.clear()
        gc.collect()


class Retrieval:
    def __init__(self):
        self.query, self.candidate = tower("query"), tower("candidate")
        self.vars = self.query.trainable_variables + self.candidate.trainable_variables
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.vars)

    @tf.function
    def step(self, u, i):
        with tf.GradientTape() as tape:
            logits = tf.matmul(self.query(u), self.candidate(i), transpose_b=True) * 12.0
            ce = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.range(tf.shape(logits)[0]), logits=logits)
            loss = tf.reduce_mean(ce)
        self.opt.apply_gradients(zip(tape.gradient(loss, self.vars), self.vars))
        return loss


def main():
    keras.utils.set_random_seed(4)
    rng = np.random.default_rng(4)
    catalogue = load_catalogue(rng)
    items = item_matrix(catalogue)
    users = rng.standard_normal((N_USERS, D), dtype=np.float32)
    liked = rng.integers(0, N_ITEMS, N_PAIRS)
    fans = rng.integers(0, N_USERS, N_PAIRS)
    users[fans] += 0.5 * items[liked]
    feeder = Feeder(users, items, np.stack([fans, liked], axis=1), rng)

    model = Retrieval()
    t0, recent = time.time(), []
    for step in range(STEPS):
        loss = model.step(*feeder.take(BATCH))
        feeder.release()
        recent.append(loss)
        if len(recent) == 26:
            print("step %4d  loss %.4f" % (step + 1, float(tf.add_n(recent)) / len(recent)))
            recent.clear()
    dear = sorted(catalogue, key=lambda it: -it.price)[:3]
    print("%.1f s; dearest: %s" % (time.time() - t0, [it.title for it in dear]))


if __name__ == "__main__":
    main()
