"""SimCLR-style pretraining on star-catalogue rows (synthetic)."""
import argparse
import math
import time

import numpy as np
import tensorflow as tf
import keras


class Cooling:
    """How sharp the softmax over the batch is: warm at first, cold at the end."""

    def __init__(self, hot=0.5, cold=0.05, span=2000, every=10):
        self.hot, self.cold, self.span, self.every = hot, cold, span, every

    def at(self, step):
        k = step // self.every * self.every
        return self.cold + 0.5 * (self.hot - self.cold) * (1 + math.cos(math.pi * min(k, self.span) / self.span))


class Pretrainer:
    def __init__(self, args):
        self.args = args
        self.trunk = keras.Sequential([keras.Input((args.columns,))] + [
            keras.layers.Dense(args.width, activation="swish") for _ in range(3)])
        self.head = keras.Sequential([keras.Input((args.width,)), keras.layers.Dense(64)])
        self.cooling = Cooling()
        self.optimizer = keras.optimizers.AdamW(1e-3)
        self.weights = self.trunk.trainable_variables + self.head.trainable_variables
        self.optimizer.build(self.weights)
        self.step = 0

    def views(self, rows):
        keep = tf.cast(tf.random.uniform(tf.shape(rows)) > 0.25, rows.dtype)
        return rows * keep + tf.random.normal(tf.shape(rows), stddev=0.1)

    @tf.function
    def align(self, rows, sharpness):
        n = tf.shape(rows)[0]
        with tf.GradientTape() as tape:
            both = tf.concat([self.views(rows), self.views(rows)], 0)
            z = tf.math.l2_normalize(self.head(self.trunk(both, training=True), training=True), -1)
            sims = tf.matmul(z[:n], z[n:], transpose_b=True) / sharpness
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(n), sims))
        grads = tape.gradient(loss, self.weights)
        self.optimizer.apply_gradients(zip(grads, self.weights))
        return loss

    def run(self, table, steps):
        g = np.random.default_rng(self.step)
        for _ in range(steps):
            rows = table[g.integers(0, len(table), self.args.batch)]
            loss = self.align(tf.constant(rows), self.cooling.at(self.step))
            self.step += 1
        return float(loss)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--columns", type=int, default=48)
    p.add_argument("--width", type=int, default=320)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--steps", type=int, default=450)
    return p.parse_args()


def main():
    args = parse()
    table = np.random.default_rng(0).normal(size=(20_000, args.columns)).astype("float32")
    job = Pretrainer(args)
    job.run(table, 10)
    t0 = time.perf_counter()
    loss = job.run(table, args.steps)
    secs = time.perf_counter() - t0
    print("loss", round(loss, 4))
    print("WORK", args.steps * args.batch)
    print("TRAIN_SECONDS", round(secs, 3))


main()
