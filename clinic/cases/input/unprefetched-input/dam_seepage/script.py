"""Seepage at the dam toe from the piezometers, one window of readings at a time.

The readings live in the plant historian; `Historian` below stands in for it so
that the script can be run off site.  One query returns one batch of windows.
"""
import time

import keras
import numpy as np
import tensorflow as tf

PIEZOMETERS = 24
WINDOW = 60
BATCH = 32
EPOCHS = 5
QUERIES_PER_EPOCH = 30


class Historian:
    """Answers like the one on site: about 30 ms from asking to having the rows."""

    round_trip = 0.030

    def __init__(self, hours=40000, seed=11):
        self.rng = np.random.default_rng(seed)
        t = np.arange(hours)
        lake = 40 + 6 * np.sin(2 * np.pi * t / 8760) + 0.02 * self.rng.standard_normal(hours).cumsum()
        depth = self.rng.uniform(0.2, 0.9, PIEZOMETERS)
        lag = self.rng.integers(0, 30, PIEZOMETERS)
        heads = np.stack([d * np.roll(lake, k) for d, k in zip(depth, lag)], axis=1)
        heads += 0.05 * self.rng.standard_normal(heads.shape)
        flow = 0.03 * heads[:, :8].mean(axis=1) ** 1.5 + 0.02 * self.rng.standard_normal(hours)
        self.heads = ((heads - heads.mean(0)) / heads.std(0)).astype(np.float32)
        self.flow = ((flow - flow.mean()) / flow.std()).astype(np.float32)[:, None]

    def windows(self, starts):
        time.sleep(self.round_trip)
        rows = starts[:, None] + np.arange(WINDOW)
        return self.heads[rows], self.flow[starts + WINDOW]

    def session(self):
        last = len(self.heads) - WINDOW - 1
        for _ in range(QUERIES_PER_EPOCH):
            yield self.windows(self.rng.integers(0, last, BATCH))


class Trainer:
    def __init__(self):
        self.net = keras.Sequential([
            keras.Input((WINDOW, PIEZOMETERS)),
            keras.layers.GRU(80),
            keras.layers.Dense(32, activation="tanh"),
            keras.layers.Dense(1),
        ])
        self.loss = keras.losses.Huber()
        self.optimizer = keras.optimizers.Adam(2e-3)
        self.optimizer.build(self.net.trainable_variables)

    def step(self, heads, flow):
        with tf.GradientTape() as tape:
            error = self.loss(flow, self.net(heads, training=True))
        weights = self.net.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(error, weights), weights))
        return error

    @tf.function
    def epoch(self, readings):
        total = tf.constant(0.0)
        for heads, flow in readings:
            total += self.step(heads, flow)
        return total / QUERIES_PER_EPOCH


def main():
    keras.utils.set_random_seed(11)
    historian = Historian()
    readings = tf.data.Dataset.from_generator(
        historian.session,
        output_signature=(
            tf.TensorSpec((BATCH, WINDOW, PIEZOMETERS), tf.float32),
            tf.TensorSpec((BATCH, 1), tf.float32),
        ),
    )

    trainer = Trainer()
    started = time.perf_counter()
    for epoch in range(EPOCHS):
        error = trainer.epoch(readings)
        print(f"epoch {epoch + 1}: huber {float(error):.4f}")
    print(f"TRAIN_SECONDS {time.perf_counter() - started:.2f}")


if __name__ == "__main__":
    main()
