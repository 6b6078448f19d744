"""A neural network 'from first principles' (no layers): alloy hardness from composition."""
import time

import numpy as np
import tensorflow as tf


def he(rng, fan_in, fan_out):
    return rng.standard_normal((fan_in, fan_out)) * np.sqrt(2.0 / fan_in)


class Smithy(tf.Module):
    def __init__(self, sizes, seed=1887):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.w = [tf.Variable(he(rng, a, b)) for a, b in zip(sizes, sizes[1:])]
        self.b = [tf.Variable(tf.zeros([b], self.w[0].dtype)) for b in sizes[1:]]

    @property
    def kind(self):
        return self.w[0].dtype

    def __call__(self, x):
        x = tf.cast(x, self.kind)
        for w, b in zip(self.w[:-1], self.b[:-1]):
            x = tf.nn.relu(x @ w + b)
        return x @ self.w[-1] + self.b[-1]


class Bellows:
    """Heavy-ball SGD."""

    def __init__(self, params, rate=0.01, push=0.9):
        self.params, self.rate, self.push = params, rate, push
        self.speed = [tf.Variable(tf.zeros_like(p)) for p in params]

    def blow(self, grads):
        for p, s, g in zip(self.params, self.speed, grads):
            s.assign(self.push * s - self.rate * g)
            p.assign_add(s)


forge = Smithy([64, 640, 640, 640, 1])
bellows = Bellows(list(forge.trainable_variables))


@tf.function
def strike(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forge(x) - tf.cast(y, forge.kind)))
    bellows.blow(tape.gradient(loss, bellows.params))
    return loss


def ore(n=16_384):
    g = np.random.default_rng(6)
    x = g.dirichlet(np.ones(64), n).astype(np.float32) * 8
    y = np.tanh(x[:, :1] * x[:, 1:2]) + 0.1 * x[:, 2:3]
    return x, y.astype(np.float32)


def hammer(ds, blows):
    for x, y in ds.take(blows):
        loss = strike(x, y)
    return loss


if __name__ == "__main__":
    BATCH, BLOWS = 256, 500
    ds = tf.data.Dataset.from_tensor_slices(ore()).shuffle(16_384).batch(BATCH).cache().repeat().prefetch(2)
    hammer(ds, 5)
    t = time.perf_counter()
    loss = hammer(ds, BLOWS)
    print("loss", float(loss))
    t = time.perf_counter() - t
    print("WORK", BATCH * BLOWS)
    print("TRAIN_SECONDS", round(t, 3))
