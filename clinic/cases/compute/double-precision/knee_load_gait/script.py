"""Surrogate of a musculoskeletal model: knee contact force from gait features."""
import argparse
import time

import numpy as np
import tensorflow as tf


def gait_cycles(n, rng):
    angles = rng.uniform(-1.0, 1.0, size=(n, 72))
    mass = rng.normal(75.0, 10.0, size=(n, 1)) / 75.0
    x = np.hstack([angles, mass])
    mix = rng.normal(size=(x.shape[1], 8)) / np.sqrt(x.shape[1])
    force = np.tanh(x @ mix) * mass
    return x, force


class Layer(tf.Module):
    def __init__(self, n_in, n_out, rng, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(rng.normal(size=(n_in, n_out)) * np.sqrt(2.0 / n_in), name="w")
        self.b = tf.Variable(np.zeros(n_out), name="b")

    def __call__(self, x):
        return tf.matmul(x, self.w) + self.b


class Surrogate(tf.Module):
    def __init__(self, sizes, rng):
        super().__init__()
        self.layers = [Layer(a, b, rng) for a, b in zip(sizes[:-1], sizes[1:])]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = tf.nn.relu(layer(x))
        return self.layers[-1](x)


class Momentum(tf.Module):
    def __init__(self, variables, lr, beta=0.9):
        super().__init__()
        self.lr, self.beta = lr, beta
        self.slots = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply(self, grads, variables):
        for g, v, m in zip(grads, variables, self.slots):
            m.assign(self.beta * m + g)
            v.assign_sub(self.lr * m)


def build_step(model, optimizer):
    variables = model.trainable_variables

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss
    return step


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--cycles", type=int, default=12800)
    p.add_argument("--hidden", type=int, nargs="*", default=[512, 512, 512])
    p.add_argument("--batch", type=int, default=512)
    p.add_argument("--epochs", type=int, default=10)
    return p.parse_args()


def main():
    args = parse()
    rng = np.random.default_rng(55)
    x, force = gait_cycles(args.cycles, rng)
    model = Surrogate([x.shape[1], *args.hidden, force.shape[1]], rng)
    step = build_step(model, Momentum(model.trainable_variables, lr=0.02))
    data = (tf.data.Dataset.from_tensor_slices((x, force)).shuffle(4096, seed=1)
            .batch(args.batch, drop_remainder=True).prefetch(2))

    t = time.time()
    done = 0
    for epoch in range(args.epochs):
        total = 0.0
        for xb, yb in data:
            total += step(xb, yb)
            done += args.batch
        print(f"epoch {epoch + 1} mse {float(total) / (args.cycles // args.batch):.5f}")
    t = time.time() - t
    print("WORK", done)
    print("TRAIN_SECONDS %.3f" % t)


if __name__ == "__main__":
    main()
