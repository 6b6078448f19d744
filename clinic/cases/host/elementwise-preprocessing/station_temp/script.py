"""Day-ahead temperature at a weather station from the last day of hourly readings."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

HOURS, AHEAD = 24, 24


def station_record(hours, seed=4):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    temp = 10 + 8 * np.sin(2 * np.pi * t / 24) + 10 * np.sin(2 * np.pi * t / 8766) + rng.normal(0, 1, hours)
    cols = [temp] + [np.roll(temp, k) * rng.uniform(0.2, 1) + rng.normal(0, 2, hours) for k in range(1, 6)]
    rec = np.stack(cols, 1).astype(np.float32)
    return (rec - rec.mean(0)) / rec.std(0)


def supervised(record):
    xs = np.empty((0, HOURS, record.shape[1]), np.float32)
    ys = np.empty((0,), np.float32)
    for start in range(len(record) - HOURS - AHEAD):
        stop = start + HOURS
        xs = np.concatenate([xs, record[None, start:stop]])
        ys = np.append(ys, record[stop + AHEAD, 0])
    return xs, ys


def forecaster(features):
    return models.Sequential([
        layers.Input((HOURS, features)),
        layers.Conv1D(32, 5, padding="causal", activation="relu"),
        layers.Conv1D(32, 5, padding="causal", dilation_rate=4, activation="relu"),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(1),
    ])


def main():
    t0 = time.perf_counter()
    x, y = supervised(station_record(7000))
    cut = int(0.8 * len(x))
    print(f"{len(x)} windows ready at {time.perf_counter() - t0:.1f}s")
    model = forecaster(x.shape[-1])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(x[:cut], y[:cut], batch_size=64, epochs=4, validation_data=(x[cut:], y[cut:]), verbose=2)
    print(f"done at {time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
