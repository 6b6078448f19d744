"""Forecast tomorrow's temperature at a weather station from two days of hourly readings."""
import argparse
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass
class Config:
    hours: int = 48
    channels: int = 10
    horizon: int = 24
    batch: int = 128
    filters: int = 12
    lr: float = 2e-3


def synth_station(n_hours, n_channels, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(n_hours)
    season = 10 * np.sin(2 * np.pi * t / 8766.0)
    day = 5 * np.sin(2 * np.pi * t / 24.0)
    front = np.cumsum(rng.normal(0, 0.15, n_hours))
    front -= np.convolve(front, np.ones(240) / 240, mode="same")
    base = 9 + season + day + front
    cols = [base]
    for k in range(1, n_channels):
        cols.append(np.roll(base, k) * rng.uniform(0.2, 1.2) + rng.normal(0, 1.0, n_hours))
    return np.stack(cols, axis=1).astype("float32")


class WindowGenerator:
    def __init__(self, series, cfg, seed=0):
        self.series = series
        self.cfg = cfg
        self.rng = np.random.default_rng(seed)
        self.last_start = len(series) - cfg.hours - cfg.horizon

    def __len__(self):
        return self.last_start // 2 // self.cfg.batch

    def windows(self):
        cfg = self.cfg
        for _ in range(len(self) * cfg.batch):
            start = self.rng.integers(0, self.last_start)
            window = self.series[start:start + cfg.hours]
            mean = window.mean(axis=0, keepdims=True)
            x = (window - mean) / 5.0
            target = self.series[start + cfg.hours + cfg.horizon - 1, 0]
            y = (target - window[-1, 0]) / 5.0
            yield x, y

    def as_dataset(self):
        cfg = self.cfg
        ds = tf.data.Dataset.from_generator(
            self.windows,
            output_signature=(
                tf.TensorSpec((cfg.hours, cfg.channels), tf.float32),
                tf.TensorSpec((), tf.float32),
            ),
        )
        return ds.batch(cfg.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class TemperatureNet(tf.keras.Model):
    def __init__(self, filters):
        super().__init__()
        self.first = tf.keras.layers.Conv1D(filters, 5, strides=2, activation="relu")
        self.second = tf.keras.layers.Conv1D(2 * filters, 5, strides=2, activation="relu")
        self.flat = tf.keras.layers.Flatten()
        self.hidden = tf.keras.layers.Dense(32, activation="relu")
        self.out = tf.keras.layers.Dense(1)

    def call(self, x):
        h = self.flat(self.second(self.first(x)))
        return self.out(self.hidden(h))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--years", type=float, default=2.25)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    cfg = Config()

    tf.keras.utils.set_random_seed(0)
    series = synth_station(int(args.years * 8766), cfg.channels)
    train = WindowGenerator(series, cfg)
    model = TemperatureNet(cfg.filters)
    model.compile(optimizer=tf.keras.optimizers.Adam(cfg.lr), loss="huber", metrics=["mae"])

    began = time.perf_counter()
    fit = model.fit(train.as_dataset(), epochs=args.epochs, verbose=2)
    seconds = time.perf_counter() - began

    print("mean error %.2f degrees" % (5.0 * fit.history["mae"][-1]))
    print("WORK", args.epochs * len(train) * cfg.batch)
    print("TRAIN_SECONDS %.3f" % seconds)


if __name__ == "__main__":
    main()
