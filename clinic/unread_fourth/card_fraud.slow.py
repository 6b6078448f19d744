"""Denoising autoencoder over card transactions; reconstruction error flags fraud."""
import argparse
import logging

import numpy as np
import tensorflow as tf
from tensorflow import keras

log = logging.getLogger("fraud")
FIELDS = 48


def read_transactions(rows, seed=3):
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((rows, 8), dtype=np.float32)
    mix = rng.standard_normal((8, FIELDS), dtype=np.float32)
    x = np.tanh(latent @ mix) + 0.1 * rng.standard_normal((rows, FIELDS), dtype=np.float32)
    fraud = rng.random(rows) < 0.004
    x[fraud] += rng.normal(0, 0.8, (int(fraud.sum()), FIELDS)).astype(np.float32)
    return x, fraud


class Corrupt:
    """Replaces a random share of the fields by noise."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, row, target):
        shape = tf.shape(row)
        hit = tf.random.uniform(shape) < self.rate
        return tf.where(hit, tf.random.normal(shape), row), target


class Jitter:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, row, target):
        return row + self.scale * tf.random.normal(tf.shape(row)), target


class Clip:
    def __init__(self, limit):
        self.limit = limit

    def __call__(self, row, target):
        return tf.clip_by_value(row, -self.limit, self.limit), target


def loader(x, *transforms, batch_size, shuffle=True):
    ds = tf.data.Dataset.from_tensor_slices((x, x))
    if shuffle:
        ds = ds.shuffle(20_000)
    for transform in transforms:
        ds = ds.map(transform, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(batch_size)
    return ds.prefetch(tf.data.AUTOTUNE)


def autoencoder(widths=(1024, 512, 64)):
    inp = keras.Input((FIELDS,))
    x = inp
    for w in widths:
        x = keras.layers.Dense(w, activation="gelu")(x)
    for w in reversed(widths[:-1]):
        x = keras.layers.Dense(w, activation="gelu")(x)
    return keras.Model(inp, keras.layers.Dense(FIELDS)(x))


def report(model, x, fraud):
    error = np.square(model.predict(x, batch_size=8192, verbose=0) - x).mean(axis=1)
    auc = keras.metrics.AUC(num_thresholds=500)
    auc.update_state(fraud, error / error.max())
    log.info("held-out AUC %.4f", float(auc.result()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=0.15)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    x, fraud = read_transactions(args.rows)
    cut = int(0.9 * len(x))
    clean = x[:cut][~fraud[:cut]]
    log.info("%d clean rows for training", len(clean))

    train = loader(
        clean, Corrupt(args.rate), Jitter(0.02), Clip(4.0), batch_size=args.batch_size)
    model = autoencoder()
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")
    model.fit(train, epochs=args.epochs, verbose=2)
    report(model, x[cut:], fraud[cut:])
    model.save("fraud_dae.keras")


if __name__ == "__main__":
    main()
