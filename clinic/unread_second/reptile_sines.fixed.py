"""Reptile meta-learning on sinusoid regression tasks."""
import argparse
from typing import Callable, List

import numpy as np
import tensorflow as tf


def sample_task(rng: np.random.Generator, n: int):
    amp = rng.uniform(0.1, 5.0)
    phase = rng.uniform(0, np.pi)
    x = rng.uniform(-5, 5, (n, 1)).astype(np.float32)
    y = (amp * np.sin(x + phase)).astype(np.float32)
    return tf.constant(x), tf.constant(y)


def make_model(width: int = 64) -> tf.keras.Model:
    return tf.keras.Sequential([
        tf.keras.Input((1,)),
        tf.keras.layers.Dense(width, activation="tanh"),
        tf.keras.layers.Dense(width, activation="tanh"),
        tf.keras.layers.Dense(1),
    ])


def make_inner_step(model: tf.keras.Model, lr: float, k: int) -> Callable:
    @tf.function
    def adapt(x, y):
        loss = tf.constant(0.0)
        for _ in tf.range(k):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            grads = tape.gradient(loss, model.trainable_variables)
            for v, g in zip(model.trainable_variables, grads):
                v.assign_sub(lr * g)
        return loss

    return adapt


class Reptile:
    def __init__(self, args):
        self.args = args
        self.model = make_model()
        self.rng = np.random.default_rng(args.seed)
        self.history: List[float] = []
        self.adapt = make_inner_step(self.model, args.inner_lr, args.inner_steps)

    def meta_step(self, frac: float):
        before = [tf.identity(v) for v in self.model.trainable_variables]
        x, y = sample_task(self.rng, self.args.shots)
        loss = self.adapt(x, y)
        eps = self.args.meta_lr * (1.0 - frac)
        for v, old in zip(self.model.trainable_variables, before):
            v.assign(old + eps * (v - old))
        return loss

    def train(self):
        for it in range(self.args.iterations):
            loss = self.meta_step(it / self.args.iterations)
            if (it + 1) % 500 == 0:
                self.history.append(float(loss))
                print(f"iter {it + 1} inner loss {self.history[-1]:.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iterations", type=int, default=10_000)
    ap.add_argument("--shots", type=int, default=32)
    ap.add_argument("--inner-steps", type=int, default=8)
    ap.add_argument("--inner-lr", type=float, default=0.02)
    ap.add_argument("--meta-lr", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=0)
    Reptile(ap.parse_args()).train()


if __name__ == "__main__":
    main()
