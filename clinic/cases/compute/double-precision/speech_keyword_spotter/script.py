#!/usr/bin/env python
"""Keyword spotting with a small time-delay network.

usage: python speech_keyword_spotter.py [--epochs N] [--batch-size N] ...
"""
import argparse
import time

import numpy as np
import tensorflow as tf
import keras

KEYWORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "_silence_", "_unknown_"]


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--steps-per-epoch", type=int, default=8)
    p.add_argument("--width", type=int, default=96)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def synth_logmels(n, seed, frames=98, mels=40):
    """Log-mel like maps: one moving formant per keyword over coloured noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(KEYWORDS), n)
    t = np.linspace(0, 1, frames, dtype="float32")
    centre = 5 + 2.5 * y[:, None] + 4 * np.sin(2 * np.pi * (t[None] + rng.random((n, 1))))
    grid = np.arange(mels, dtype="float32")
    x = np.exp(-0.5 * ((grid[None, None] - centre[..., None]) / 2.0) ** 2)
    x += 0.3 * rng.standard_normal((n, frames, mels))
    return x, y


class TDNNLayer(tf.Module):
    """Frame splicing over [-context, context] followed by an affine map."""

    def __init__(self, rng, n_in, n_out, context):
        super().__init__()
        self.context = context
        taps = 2 * context + 1
        scale = np.sqrt(2.0 / (taps * n_in))
        self.kernel = tf.Variable(rng.normal(0.0, scale, (taps, n_in, n_out)), name="kernel")
        self.bias = tf.Variable(np.zeros(n_out), name="bias")

    def __call__(self, x):
        return tf.nn.relu(tf.nn.conv1d(x, self.kernel, 1, "SAME") + self.bias)


class KeywordNet(tf.Module):
    def __init__(self, width, n_classes, seed):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.stack = [TDNNLayer(rng, 40, width, 2)]
        self.stack += [TDNNLayer(rng, width, width, 2) for _ in range(3)]
        self.head = tf.Variable(rng.normal(0.0, 0.05, (width, n_classes)), name="head")

    def __call__(self, x):
        for layer in self.stack:
            x = layer(x)
        return tf.reduce_mean(x, axis=1) @ self.head


def make_train_step(model, optimizer, loss_fn, accuracy):
    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x)
            loss = loss_fn(y, logits)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        accuracy.update_state(y, logits)
        return loss

    return train_step


def main():
    args = parse_args()
    keras.utils.set_random_seed(args.seed)

    x, y = synth_logmels(args.batch_size * args.steps_per_epoch, args.seed)
    ds = (tf.data.Dataset.from_tensor_slices((x, y))
          .shuffle(len(x), seed=args.seed)
          .batch(args.batch_size, drop_remainder=True)
          .prefetch(tf.data.AUTOTUNE))

    model = KeywordNet(args.width, len(KEYWORDS), args.seed)
    optimizer = keras.optimizers.Adam(args.lr)
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    train_step = make_train_step(model, optimizer, loss_fn, accuracy)

    seen = 0
    start = time.perf_counter()
    for epoch in range(1, args.epochs + 1):
        accuracy.reset_state()
        for xb, yb in ds:
            loss = train_step(xb, yb)
            seen += args.batch_size
        print(f"epoch {epoch}: loss {loss.numpy():.4f} accuracy {accuracy.result().numpy():.3f}")
    seconds = time.perf_counter() - start

    print("WORK", seen)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
