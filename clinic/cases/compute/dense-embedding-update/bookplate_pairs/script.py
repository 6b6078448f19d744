"""Who owned books together? Owners found on bookplates are embedded from pairs (skip-gram with negatives).

Plain stochastic gradient descent, by hand, as in the first word2vec.
"""

import math
import sys
import time

import numpy as np
import tensorflow as tf

OWNERS = 300_000
CIRCLES = 300
WIDTH = 48
BATCH = 512
NEGATIVES = 8


def libraries(pairs, seed):
    """Pairs of owners out of the same circle, the well known ones more often."""
    rng = np.random.default_rng(seed)
    circle = rng.integers(CIRCLES, size=pairs)
    inside = OWNERS // CIRCLES
    left = np.minimum(rng.exponential(inside / 6, pairs), inside - 1).astype("int64")
    right = np.minimum(rng.exponential(inside / 6, pairs), inside - 1).astype("int64")
    return np.stack([circle + CIRCLES * left, circle + CIRCLES * right], -1)


class Owners(tf.Module):
    def __init__(self, seed):
        super().__init__()
        start = tf.random.Generator.from_seed(seed)
        self.who = tf.Variable(start.normal((OWNERS, WIDTH), stddev=1 / math.sqrt(WIDTH)), name="who")
        self.beside = tf.Variable(tf.zeros((OWNERS, WIDTH)), name="beside")
        self.bias = tf.Variable(tf.zeros((OWNERS,)), name="bias")

    def loss(self, left, right, wrong):
        a = tf.gather(self.who, left)
        b = tf.gather(self.beside, right)
        c = tf.gather(self.beside, wrong)
        good = tf.reduce_sum(a * b, -1) + tf.gather(self.bias, right)
        bad = tf.einsum("bd,bnd->bn", a, c) + tf.gather(self.bias, wrong)
        return tf.reduce_mean(tf.nn.softplus(-good) + tf.reduce_sum(tf.nn.softplus(bad), -1))


class Descent:
    """Steepest descent with a rate that sinks linearly."""

    def __init__(self, rate, steps):
        self.rate, self.steps = rate, steps
        self.done = tf.Variable(0.0, trainable=False)

    def __call__(self, variables, gradients):
        rate = self.rate * (1.0 - self.done / self.steps)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(rate * gradient)
        self.done.assign_add(1.0)


def make_step(owners, descent):
    @tf.function
    def step(pair, wrong):
        with tf.GradientTape() as tape:
            loss = owners.loss(pair[:, 0], pair[:, 1], wrong)
        variables = [owners.who, owners.beside, owners.bias]
        descent(variables, tape.gradient(loss, variables))
        return loss

    return step


def main(steps=420):
    tf.random.set_seed(1)
    pairs = libraries(steps * BATCH, seed=2)
    rng = np.random.default_rng(3)
    wrong = rng.integers(OWNERS, size=(steps * BATCH, NEGATIVES))
    data = tf.data.Dataset.from_tensor_slices((pairs, wrong)).batch(BATCH).prefetch(4)
    owners = Owners(seed=4)
    step = make_step(owners, Descent(0.5 * BATCH, steps))
    began = time.perf_counter()
    for number, (pair, no) in enumerate(data):
        loss = step(pair, no)
        if number == 4:
            warm = time.perf_counter()
        if number % 40 == 0:
            print(f"{number:5d}  {float(loss):.4f}")
    now = time.perf_counter()
    print(f"trained in {now - began:.2f} s, {(now - warm) / (steps - 5) * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
