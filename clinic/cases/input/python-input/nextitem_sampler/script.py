#!/usr/bin/env python
"""Next-purchase retrieval for the web shop: sequence tower against item embeddings, sampled negatives."""
import argparse
import itertools
import random
import time

import numpy as np
import tensorflow as tf
import keras


def make_orders(n_users, n_items, rng):
    taste = rng.integers(0, 20, n_users)
    orders = []
    for u in range(n_users):
        length = int(rng.integers(15, 60))
        centre = (taste[u] + 0.5) * n_items / 20
        items = np.abs(rng.normal(centre, n_items / 15, length)).astype(int) % n_items
        orders.append((items + 1).tolist())
    return orders


class TripletSampler:
    """Endless stream of (history, bought, not bought)."""

    def __init__(self, orders, n_items, batch, hist_len, n_neg, seed=0):
        self.orders = orders
        self.seen = [set(o) for o in orders]
        self.n_items, self.batch, self.hist_len, self.n_neg = n_items, batch, hist_len, n_neg
        self.rnd = random.Random(seed)

    def __iter__(self):
        return self

    def _one(self):
        u = self.rnd.randrange(len(self.orders))
        order = self.orders[u]
        k = self.rnd.randrange(1, len(order))
        past = order[max(0, k - self.hist_len):k]
        past = [0] * (self.hist_len - len(past)) + past
        negatives = []
        while len(negatives) < self.n_neg:
            j = self.rnd.randint(1, self.n_items)
            if j not in self.seen[u]:
                negatives.append(j)
        return past, order[k], negatives

    def __next__(self):
        rows = [self._one() for _ in range(self.batch)]
        past, bought, negatives = zip(*rows)
        return (np.array(past, "int32"), np.array(bought, "int32"), np.array(negatives, "int32"))


class Retriever(keras.Model):
    def __init__(self, n_items, dim):
        super().__init__()
        self.items = keras.layers.Embedding(n_items + 1, dim)
        self.tower = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(dim)])

    def call(self, past):
        mask = tf.cast(past > 0, tf.float32)[..., None]
        pooled = tf.reduce_sum(self.items(past) * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)
        return self.tower(pooled)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=4000)
    p.add_argument("--items", type=int, default=3000)
    p.add_argument("--steps", type=int, default=700)
    p.add_argument("--batch", type=int, default=1024)
    p.add_argument("--hist", type=int, default=20)
    p.add_argument("--negatives", type=int, default=5)
    args = p.parse_args()

    keras.utils.set_random_seed(1)
    orders = make_orders(args.users, args.items, np.random.default_rng(1))
    sampler = TripletSampler(orders, args.items, args.batch, args.hist, args.negatives)
    model = Retriever(args.items, 32)
    optimizer = keras.optimizers.Adagrad(0.05)
    model(tf.zeros((2, args.hist), tf.int32))
    optimizer.build(model.trainable_variables)
    running = keras.metrics.Mean()

    @tf.function
    def train_step(past, bought, negatives):
        with tf.GradientTape() as tape:
            query = model(past, training=True)
            candidates = model.items(tf.concat([bought[:, None], negatives], 1))
            scores = tf.einsum("bd,bcd->bc", query, candidates)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.zeros_like(bought), logits=scores))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(grads, model.trainable_variables)
        running.update_state(loss)

    start = time.time()
    for step, (past, bought, negatives) in enumerate(itertools.islice(sampler, args.steps), 1):
        train_step(past, bought, negatives)
        if step % 100 == 0:
            print(f"step {step}: loss {float(running.result()):.4f}")
            running.reset_state()
    seconds = time.time() - start
    print("WORK", args.steps * args.batch)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
