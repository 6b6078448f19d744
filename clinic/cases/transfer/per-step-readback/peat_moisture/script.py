#!/usr/bin/env python
"""Which peat plots will fall below the fire-risk moisture within a week? (binary, imbalanced)"""
import argparse
import sys
import time

import keras
import numpy as np
import tensorflow as tf


def plots(n, features, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)).astype(np.float32)
    w = rng.normal(size=features) / np.sqrt(features)
    score = x @ w + 0.5 * x[:, 0] * x[:, 1] - 1.1
    return x, (score + 0.3 * rng.normal(size=n) > 0).astype(np.float32)[:, None]


def build(features):
    inputs = keras.Input((features,))
    h = inputs
    for units in (512, 512, 256):
        h = keras.layers.Dense(units, activation="relu")(h)
        h = keras.layers.Dropout(0.1)(h)
    return keras.Model(inputs, keras.layers.Dense(1)(h))


class Scores:
    """All the figures that the rangers asked for."""

    def __init__(self):
        self.items = {
            "loss": keras.metrics.Mean(),
            "auc": keras.metrics.AUC(),
            "pr": keras.metrics.AUC(curve="PR"),
            "prec": keras.metrics.Precision(),
            "rec": keras.metrics.Recall(),
            "s@90": keras.metrics.SensitivityAtSpecificity(0.9),
        }

    def update(self, loss, y, p):
        for name, item in self.items.items():
            if name == "loss":
                item.update_state(loss)
            else:
                item.update_state(y, p)

    def line(self):
        return "  ".join(f"{k} {float(m.result()):.4f}" for k, m in self.items.items())

    def reset(self):
        for m in self.items.values():
            m.reset_state()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--features", type=int, default=80)
    opts = ap.parse_args()

    x, y = plots(25600, opts.features, seed=4)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(25600).batch(opts.batch).prefetch(2)
    model, opt, scores = build(opts.features), keras.optimizers.Adam(5e-4), Scores()
    bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(xb, yb):
        with tf.GradientTape() as tape:
            logits = model(xb, training=True)
            loss = bce(yb, logits)
        grads = tape.gradient(loss, model.trainable_weights)
        opt.apply_gradients(zip(grads, model.trainable_weights))
        scores.update(loss, yb, tf.sigmoid(logits))

    start = time.perf_counter()
    for epoch in range(opts.epochs):
        scores.reset()
        for n, (xb, yb) in enumerate(data, 1):
            step(xb, yb)
            sys.stdout.write(f"\r[{epoch + 1}/{opts.epochs}] {n:4d}  {scores.line()}")
        print()
    print("WORK", opts.epochs * len(x))
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))


if __name__ == "__main__":
    main()
