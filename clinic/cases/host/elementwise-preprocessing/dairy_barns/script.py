"""Milk yield per barn and day from the climate loggers in the barns.

One reading per minute and barn, one year.  The loggers' readings are turned
into a heat-stress index, averaged to hours, and a small network over three
days of hours gives the yield of the day after.
"""
import argparse
import math
import time

import keras
import numpy as np
from keras import layers

MINUTES = 1440


def logger_readings(barns, days, rng):
    minute = np.arange(days * MINUTES)
    day = minute / MINUTES
    season = 12.0 - 11.0 * np.cos(2 * np.pi * (day - 20) / 365)
    daily = 5.0 * np.sin(2 * np.pi * (minute / MINUTES - 0.3))
    temps, hums = [], []
    for _ in range(barns):
        weather = np.repeat(rng.normal(0, 3.0, days), MINUTES)
        t = season + daily + weather + rng.normal(2.0, 1.0) + rng.normal(0, 0.3, minute.size)
        h = 72 - 1.3 * (daily + 0.5 * weather) + rng.normal(0, 4.0, minute.size)
        temps.append(t)
        hums.append(h)
    return np.stack(temps), np.stack(hums)


def barn_stress(t, rh):
    """Heat stress of a cow; 0 is comfort, 1 the onset of panting.

    Wet bulb after Stull (2011), then THI after NRC (1971).
    """
    rh = min(max(rh, 5.0), 99.0)
    wet = (
        t * math.atan(0.151977 * math.sqrt(rh + 8.313659))
        + math.atan(t + rh)
        - math.atan(rh - 1.676331)
        + 0.00391838 * rh**1.5 * math.atan(0.023101 * rh)
        - 4.686035
    )
    thi = 0.72 * (t + wet) + 40.6
    if thi < 68.0:
        return 0.0
    if thi < 78.0:
        return (thi - 68.0) / 10.0
    return 1.0 + (thi - 78.0) / 6.0


stress_index = np.vectorize(barn_stress, otypes=[float])


def hourly(a, days):
    return a.reshape(days, 24, 60).mean(axis=2)


def examples(temps, hums, days, rng):
    xs, ys = [], []
    for barn in range(len(temps)):
        load = stress_index(temps[barn], hums[barn])
        feats = np.stack(
            [hourly(temps[barn], days) / 20.0, hourly(hums[barn], days) / 70.0, hourly(load, days)],
            axis=-1,
        )                                                  # (days, 24, 3)
        herd = rng.normal(31.0, 1.5)
        strain = feats[:, :, 2].mean(axis=1)
        milk = herd - 6.0 * strain - 2.0 * np.concatenate([[0.0], strain[:-1]])
        milk += rng.normal(0, 0.4, days)
        for d in range(2, days - 1):
            xs.append(feats[d - 2:d + 1].reshape(72, 3))
            ys.append(milk[d + 1] - 31.0)
    return np.array(xs, "float32"), np.array(ys, "float32")[:, None]


def network():
    return keras.Sequential([
        keras.Input((72, 3)),
        layers.Conv1D(24, 6, strides=2, activation="relu"),
        layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.Flatten(),
        layers.Dense(48, activation="relu"),
        layers.Dropout(0.1),
        layers.Dense(1),
    ])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--barns", type=int, default=13)
    p.add_argument("--days", type=int, default=365)
    p.add_argument("--epochs", type=int, default=7)
    a = p.parse_args()

    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(2)
    temps, hums = logger_readings(a.barns, a.days, rng)

    t0 = time.time()
    x, y = examples(temps, hums, a.days, rng)
    order = rng.permutation(len(x))
    x, y = x[order], y[order]
    cut = int(0.85 * len(x))
    model = network()
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    model.fit(x[:cut], y[:cut], batch_size=32, epochs=a.epochs, verbose=2)
    seconds = time.time() - t0

    print("held-out mse, mae:", model.evaluate(x[cut:], y[cut:], batch_size=256, verbose=0))
    print(f"TRAIN_SECONDS {seconds:.2f}")


if __name__ == "__main__":
    main()
