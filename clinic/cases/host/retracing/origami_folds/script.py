"""A beta-VAE over crease patterns: how folded is a sheet? The weight of the prior and the temperature are annealed."""

import argparse
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Anneal(NamedTuple):
    beta: float
    tau: float


def crease_patterns(count, side, rng):
    """Sheets with a few straight creases, each a ridge (+) or a valley (-)."""
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side), indexing="ij"), -1)
    sheets = np.zeros((count, side, side), np.float32)
    for _ in range(4):
        angle = rng.uniform(0, np.pi, count)
        offset = rng.uniform(-0.6, 0.6, count)
        sign = rng.choice([-1.0, 1.0], count)
        normal = np.stack([np.cos(angle), np.sin(angle)], -1)
        distance = np.abs(np.einsum("ijk,nk->nij", grid, normal) - offset[:, None, None])
        sheets += (sign[:, None, None] * np.exp(-((distance / 0.08) ** 2))).astype("float32")
    return sheets.reshape(count, -1)


def schedule(step, total, every=5):
    """Both values move a little every few steps."""
    part = (step // every * every) / total
    return Anneal(beta=0.01 + 0.99 * part, tau=1.0 - 0.5 * part)


class CreaseVAE(tf.keras.Model):
    def __init__(self, width, latent):
        super().__init__()
        self.encoder = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(512, activation="gelu"),
                tf.keras.layers.LayerNormalization(),
                tf.keras.layers.Dense(256, activation="gelu"),
                tf.keras.layers.Dense(2 * latent),
            ]
        )
        self.decoder = tf.keras.Sequential(
            [
                tf.keras.layers.Dense(256, activation="gelu"),
                tf.keras.layers.LayerNormalization(),
                tf.keras.layers.Dense(512, activation="gelu"),
                tf.keras.layers.Dense(width),
            ]
        )

    def call(self, x, tau=1.0):
        mean, log_var = tf.split(self.encoder(x), 2, axis=-1)
        z = mean + tau * tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, log_var


class Folder:
    def __init__(self, model, rate):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(rate)

    @tf.function
    def update(self, x, anneal):
        with tf.GradientTape() as tape:
            out, mean, log_var = self.model(x, tau=anneal.tau)
            seen = tf.reduce_mean(tf.reduce_sum(tf.square(out - x), -1))
            prior = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), -1))
            loss = seen + anneal.beta * prior
        weights = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def fold(self, sheets, steps, batch, rng):
        for step in range(steps):
            rows = rng.integers(len(sheets), size=batch)
            now = schedule(step, steps)
            loss = self.update(tf.gather(sheets, rows), now)
            if step % 50 == 0:
                print(f"step {step:4d} beta {float(now.beta):.3f} loss {float(loss):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=170)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=24)
    args = parser.parse_args()
    tf.keras.utils.set_random_seed(11)
    rng = np.random.default_rng(11)
    sheets = tf.constant(crease_patterns(4000, args.side, rng))
    folder = Folder(CreaseVAE(args.side**2, 12), 1e-3)
    began = time.perf_counter()
    folder.fold(sheets, args.steps, args.batch, rng)
    took = time.perf_counter() - began
    print(f"trained in {took:.2f} s, {took / args.steps * 1e3:.1f} ms a step")


if __name__ == "__main__":
    main()
