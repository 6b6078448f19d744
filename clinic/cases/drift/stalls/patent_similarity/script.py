"""Metric learning for patents: triplets with hard negatives that are mined again as the encoder moves."""
import time

import numpy as np
import tensorflow as tf


def corpus(n, terms, seed=0):
    rng = np.random.default_rng(seed)
    field = rng.integers(0, 60, n)
    centre = rng.gamma(0.2, 1.0, (60, terms))
    tfidf = rng.poisson(centre[field] * 2).astype(np.float32)
    return tfidf / (np.linalg.norm(tfidf, axis=1, keepdims=True) + 1e-6), field


class TripletTrainer:
    def __init__(self, docs, field, margin=0.3):
        self.docs, self.field, self.margin = docs, field, margin
        self.rng = np.random.default_rng(2)
        self.net = tf.keras.Sequential([
            tf.keras.Input((docs.shape[1],)),
            tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(64),
            tf.keras.layers.UnitNormalization(),
        ])
        self.opt = tf.keras.optimizers.Adam(5e-4)
        self.same = {f: np.flatnonzero(field == f) for f in np.unique(field)}
        self.negatives = {}

    def mine(self, anchors=350, keep=12):
        vectors = np.concatenate([self.net(self.docs[i:i + 1000]).numpy()
                                  for i in range(0, len(self.docs), 1000)])
        self.negatives = {}
        for a in self.rng.choice(len(self.docs), anchors, replace=False):
            scores = vectors @ vectors[a]
            ranked = sorted(range(len(scores)), key=lambda j: scores[j], reverse=True)
            self.negatives[a] = [j for j in ranked if self.field[j] != self.field[a]][:keep]
        self.anchors = np.array(list(self.negatives))

    @tf.function
    def step(self, a, p, n):
        with tf.GradientTape() as tape:
            ea, ep, en = self.net(a), self.net(p), self.net(n)
            gap = tf.reduce_sum(ea * en, 1) - tf.reduce_sum(ea * ep, 1) + self.margin
            loss = tf.reduce_mean(tf.nn.relu(gap))
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        return loss

    def triplets(self, size):
        a = self.rng.choice(self.anchors, size)
        p = np.array([self.rng.choice(self.same[self.field[i]]) for i in a])
        n = np.array([self.negatives[i][self.rng.integers(len(self.negatives[i]))] for i in a])
        return self.docs[a], self.docs[p], self.docs[n]


def main(steps=250, refresh=50, batch=128):
    docs, field = corpus(4000, 800)
    trainer = TripletTrainer(docs, field)
    begin = time.perf_counter()
    for s in range(steps):
        if s % refresh == 0:
            trainer.mine()
        loss = trainer.step(*trainer.triplets(batch))
        if s % 100 == 99:
            print(f"step {s + 1} triplet loss {float(loss):.4f}")
    print("WORK", steps * batch)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


main()
