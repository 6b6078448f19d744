"""Physics-informed net for the viscous Burgers equation with annealed boundary weight."""
import argparse
import math
import os
import time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--colloc", type=int, default=512)
    p.add_argument("--anneal-every", type=int, default=25)
    p.add_argument("--nu", type=float, default=0.01 / math.pi)
    return p.parse_args()


class BurgersNet(tf.Module):
    def __init__(self, width=48, depth=5, seed=3):
        super().__init__()
        g = tf.random.Generator.from_seed(seed)
        sizes = [2] + [width] * depth + [1]
        self.ws = [tf.Variable(g.normal((a, b)) * (1.0 / a) ** 0.5) for a, b in zip(sizes[:-1], sizes[1:])]
        self.bs = [tf.Variable(tf.zeros((b,))) for b in sizes[1:]]

    def __call__(self, x, t):
        h = tf.concat([x, t], 1)
        for w, b in zip(self.ws[:-1], self.bs[:-1]):
            h = tf.tanh(h @ w + b)
        return h @ self.ws[-1] + self.bs[-1]


def residual(net, x, t, nu):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as inner:
            inner.watch([x, t])
            u = net(x, t)
        u_x = inner.gradient(u, x)
        u_t = inner.gradient(u, t)
    u_xx = outer.gradient(u_x, x)
    return u_t + u * u_x - nu * u_xx


def main():
    args = parse()
    rng = np.random.default_rng(0)
    net = BurgersNet()
    opt = tf.keras.optimizers.Adam(1e-3)
    opt.build(net.trainable_variables)

    @tf.function
    def train_step(xc, tc, x0, u0, weight):
        with tf.GradientTape() as tape:
            r = residual(net, xc, tc, args.nu)
            ic = tf.reduce_mean((net(x0, tf.zeros_like(x0)) - u0) ** 2)
            loss = tf.reduce_mean(r ** 2) + weight * ic
        grads = tape.gradient(loss, net.trainable_variables)
        opt.apply_gradients(zip(grads, net.trainable_variables))
        return loss

    def sample():
        xc = tf.constant(rng.uniform(-1, 1, (args.colloc, 1)).astype("float32"))
        tc = tf.constant(rng.uniform(0, 1, (args.colloc, 1)).astype("float32"))
        x0 = rng.uniform(-1, 1, (128, 1)).astype("float32")
        return xc, tc, tf.constant(x0), tf.constant(-np.sin(np.pi * x0))

    weight = 100.0
    t0 = time.perf_counter()
    for step in range(args.steps):
        if step and step % args.anneal_every == 0:
            weight = max(1.0, weight * 0.93)
        loss = train_step(*sample(), weight)
        if step % 100 == 0:
            print(f"{step:5d}  lambda={weight:7.3f}  loss={float(loss):.5f}")
    print("WORK", args.steps)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


main()
