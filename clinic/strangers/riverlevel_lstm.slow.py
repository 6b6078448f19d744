"""Gauge forecasting on irregular flood events: GRU encoder, masked last-state regression."""
import argparse
import time

import numpy as np
import tensorflow as tf


def make_events(n, rng, channels=5):
    events, peaks = [], []
    for _ in range(n):
        length = int(rng.integers(24, 112))
        rain = rng.gamma(0.6, 1.0, size=(length, channels)).astype("float32")
        level = np.cumsum(rain.mean(axis=1)) * np.exp(-np.arange(length)[::-1] / 30.0)
        events.append(rain)
        peaks.append(np.float32(level[-1] / 10.0))
    return events, np.array(peaks, "float32")


def collate(events, peaks, picks):
    longest = max(len(events[i]) for i in picks)
    x = np.zeros((len(picks), longest, events[0].shape[1]), "float32")
    mask = np.zeros((len(picks), longest), "bool")
    for row, i in enumerate(picks):
        x[row, :len(events[i])] = events[i]
        mask[row, :len(events[i])] = True
    return tf.constant(x), tf.constant(mask), tf.constant(peaks[picks])


class LevelNet(tf.keras.Model):
    def __init__(self, units):
        super().__init__()
        self.inp = tf.keras.layers.Dense(units, activation="relu")
        self.rnn = tf.keras.layers.GRU(units)
        self.out = tf.keras.layers.Dense(1)

    def call(self, x, mask=None):
        return self.out(self.rnn(self.inp(x), mask=mask))[:, 0]


class Trainer:
    def __init__(self, net, lr):
        self.net = net
        self.opt = tf.keras.optimizers.Adam(lr)
        self.update = tf.function(self._update)

    def _update(self, x, mask, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(x, mask=mask) - y))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=75)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--units", type=int, default=32)
    a = p.parse_args()
    rng = np.random.default_rng(4)
    events, peaks = make_events(800, rng)
    net = LevelNet(a.units)
    net(tf.zeros((1, 10, 5)), mask=tf.ones((1, 10), tf.bool))
    trainer = Trainer(net, 2e-3)
    start = time.time()
    for step in range(a.steps):
        picks = rng.choice(len(events), a.batch, replace=False)
        x, mask, y = collate(events, peaks, picks)
        loss = trainer.update(x, mask, y)
        if step % 25 == 0:
            print(f"step {step} loss {float(loss):.4f}")
    print(f"final {float(loss):.4f} in {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
