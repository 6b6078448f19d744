"""Surrogate of a lake temperature model: weather and depth in, water temperature out."""
import time

import numpy as np
import tensorflow as tf


class Perceptron(tf.Module):
    def __init__(self, sizes, rng):
        super().__init__()
        self.w, self.b = [], []
        for n_in, n_out in zip(sizes[:-1], sizes[1:]):
            scale = np.sqrt(2.0 / (n_in + n_out))
            self.w.append(tf.Variable(rng.normal(0.0, scale, (n_in, n_out))))
            self.b.append(tf.Variable(np.zeros(n_out)))

    def __call__(self, x):
        for w, b in zip(self.w[:-1], self.b[:-1]):
            x = tf.tanh(x @ w + b)
        return x @ self.w[-1] + self.b[-1]


class Momentum:
    def __init__(self, variables, lr, mu=0.9):
        self.lr, self.mu = lr, mu
        self.variables = variables
        self.velocity = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, grads):
        for v, m, g in zip(self.variables, self.velocity, grads):
            m.assign(self.mu * m - self.lr * g)
            v.assign_add(m)


def simulate(n, rng):
    day = rng.uniform(0, 365, n)
    air = 12 - 11 * np.cos(2 * np.pi * day / 365) + rng.normal(0, 3, n)
    wind = rng.gamma(2.0, 1.5, n)
    cloud = rng.beta(2, 2, n)
    depth = rng.uniform(0, 40, n)
    clarity = rng.uniform(1, 8, n)
    mixed = 3 + 1.5 * wind
    water = 5 + (air - 5) * np.exp(-np.maximum(depth - mixed, 0) / clarity) * (1 - 0.2 * cloud)
    x = np.stack([np.sin(2 * np.pi * day / 365), np.cos(2 * np.pi * day / 365), air / 20, wind / 5,
                  cloud, depth / 40, clarity / 8], axis=1)
    return x, (water[:, None] - 10) / 10


def make_step(net, opt, x, y, batch):
    n = x.shape[0]

    @tf.function
    def step():
        pick = tf.random.uniform((batch,), 0, n, tf.int32)
        xb, yb = tf.gather(x, pick), tf.gather(y, pick)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(xb) - yb))
        opt.apply(tape.gradient(loss, net.trainable_variables))
        return loss

    return step


def main(batch=512, rounds=16, steps=60):
    tf.random.set_seed(4)
    rng = np.random.default_rng(4)
    features, target = simulate(50_000, rng)
    x, y = tf.constant(features), tf.constant(target)
    net = Perceptron([x.shape[1], 256, 256, 256, 1], rng)
    opt = Momentum(net.trainable_variables, lr=0.02)
    step = make_step(net, opt, x, y, batch)
    step()
    t0 = time.perf_counter()
    for r in range(rounds):
        for _ in range(steps):
            loss = step()
        print(f"round {r}: mse {float(loss):.5f}")
    took = time.perf_counter() - t0
    print(f"WORK {rounds * steps}")
    print(f"TRAIN_SECONDS {took:.3f}")


if __name__ == "__main__":
    main()
