"""Hourly bread sales, next-day profile from the last three days (from the course notebook)."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class Setup:
    history: int = 72
    horizon: int = 24
    batch: int = 128
    epochs: int = 6
    hours: int = 16000
    shuffle: int = 1000
    lr: float = 1e-3


def sales_series(hours, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    day = np.clip(np.sin((t % 24 - 5) / 24 * 2 * np.pi), 0, None)
    week = 1.0 + 0.3 * np.isin((t // 24) % 7, [5, 6])
    trend = 1 + t / hours * 0.4
    noise = rng.gamma(8.0, 1 / 8.0, hours)
    return (40 * day * week * trend * noise).astype("float32")


def normalise(series, split):
    mean, std = series[:split].mean(), series[:split].std()
    return (series - mean) / std


def windowed_dataset(series, cfg, training):
    size = cfg.history + cfg.horizon
    ds = tf.data.Dataset.from_tensor_slices(series)
    ds = ds.window(size, shift=1, drop_remainder=True)
    ds = ds.flat_map(lambda w: w.batch(size))
    if training:
        ds = ds.shuffle(cfg.shuffle, seed=11)
    ds = ds.batch(cfg.batch)
    ds = ds.map(lambda w: (w[:, :cfg.history, None], w[:, cfg.history:]),
                num_parallel_calls=tf.data.AUTOTUNE)
    return ds.prefetch(tf.data.AUTOTUNE)


def make_model(cfg):
    model = keras.Sequential([
        keras.Input((cfg.history, 1)),
        keras.layers.Conv1D(24, 6, strides=2, activation="relu"),
        keras.layers.Conv1D(24, 4, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(cfg.horizon),
    ])
    model.compile(optimizer=keras.optimizers.Adam(cfg.lr), loss=keras.losses.Huber(), metrics=["mae"])
    return model


def main():
    cfg = Setup()
    keras.utils.set_random_seed(5)
    series = sales_series(cfg.hours)
    split = int(cfg.hours * 0.95)
    series = normalise(series, split)
    train = windowed_dataset(series[:split], cfg, training=True)
    test = windowed_dataset(series[split:], cfg, training=False)
    model = make_model(cfg)

    start = time.perf_counter()
    history = model.fit(train, epochs=cfg.epochs, verbose=2)
    seconds = time.perf_counter() - start

    loss, mae = model.evaluate(test, verbose=0)
    print(f"last train mae {history.history['mae'][-1]:.3f}, test mae {mae:.3f}")
    print("WORK", cfg.epochs * (split - cfg.history - cfg.horizon + 1))
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
