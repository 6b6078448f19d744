"""Groundwater head a week ahead, from 30 days of rain, pumping, temperature,
river stage and the head itself.  Eight observation wells in a gravel aquifer.

Convergence is judged the way we judge everything else in this group: with a
Mann-Kendall trend test.
"""
import collections
import math
import time

import keras
import numpy as np
from keras import layers

DAYS = 3000
WELLS = 8
PAST, AHEAD = 30, 7


def simulate(seed):
    rng = np.random.default_rng(seed)
    doy = np.arange(DAYS) % 365
    rain = rng.gamma(0.4, 8.0, (DAYS, 1)) * (rng.random((DAYS, 1)) < 0.45)
    temp = 10 + 9 * np.sin(2 * np.pi * (doy - 110) / 365)[:, None] + rng.normal(0, 2, (DAYS, 1))
    pump = 40 + 15 * (temp > 16) + rng.normal(0, 3, (DAYS, 1))
    stage = np.convolve(rain[:, 0], np.exp(-np.arange(20) / 5.0), mode="full")[:DAYS, None]
    k = rng.uniform(0.01, 0.05, WELLS)
    leak = rng.uniform(0.02, 0.08, WELLS)
    head = np.zeros((DAYS, WELLS))
    h = np.full(WELLS, 5.0)
    for d in range(DAYS):
        recharge = 0.012 * max(rain[d, 0] - 0.2 * max(temp[d, 0], 0), 0)
        h = h + recharge + leak * (0.05 * stage[d] - 0.02 * h) - k * 0.002 * pump[d]
        head[d] = h
    head += rng.normal(0, 0.01, head.shape)
    forcing = np.concatenate([rain, temp, pump, stage], axis=1)
    return forcing, head


def windows(forcing, head):
    forcing = (forcing - forcing.mean(axis=0)) / forcing.std(axis=0)
    head = (head - head.mean(axis=0)) / head.std(axis=0)
    xs, ys = [], []
    for w in range(WELLS):
        series = np.concatenate([forcing, head[:, w:w + 1]], axis=1)
        view = np.lib.stride_tricks.sliding_window_view(series, PAST, axis=0)
        view = view[:DAYS - PAST - AHEAD + 1].transpose(0, 2, 1)
        target = head[PAST + AHEAD - 1:, w] - head[PAST - 1:DAYS - AHEAD, w]
        xs.append(view)
        ys.append(target)
    return np.concatenate(xs).astype("float32"), np.concatenate(ys).astype("float32")[:, None]


def mann_kendall(series):
    """Z of the Mann-Kendall test; strongly negative: still going down."""
    n = len(series)
    s = 0
    for i in range(n - 1):
        a = series[i]
        for b in series[i + 1:]:
            s += (b > a) - (b < a)
    var = n * (n - 1) * (2 * n + 5) / 18.0
    if s == 0 or var == 0:
        return 0.0
    return (s - math.copysign(1, s)) / math.sqrt(var)


class TrendStop(keras.callbacks.Callback):
    """Stop when the loss has turned upwards over the last `memory` batches."""

    def __init__(self, memory=400, limit=4.0, patience=4):
        super().__init__()
        self.recent = collections.deque(maxlen=memory)
        self.limit = limit
        self.patience = patience
        self.bad = 0
        self.z = 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.recent.append(float(logs["loss"]))
        self.z = mann_kendall(list(self.recent))

    def on_epoch_end(self, epoch, logs=None):
        self.bad = self.bad + 1 if self.z > self.limit else 0
        print(f"  epoch {epoch + 1}: trend z = {self.z:+.1f}")
        if self.bad >= self.patience:
            self.model.stop_training = True


def build():
    inp = keras.Input((PAST, 5))
    x = layers.Conv1D(24, 5, padding="causal", activation="relu")(inp)
    x = layers.Conv1D(24, 5, padding="causal", activation="relu")(x)
    x = layers.Concatenate()([layers.GlobalAveragePooling1D()(x), layers.Flatten()(inp[:, -3:, :])])
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1)(x))


if __name__ == "__main__":
    keras.utils.set_random_seed(4)
    x, y = windows(*simulate(4))
    order = np.random.default_rng(4).permutation(len(x))
    x, y = x[order], y[order]
    n = 64 * 350
    model = build()
    model.compile(keras.optimizers.Adam(1e-3), loss="huber")

    t0 = time.perf_counter()
    model.fit(x[:n], y[:n], batch_size=64, epochs=4, verbose=2, callbacks=[TrendStop()])
    dt = time.perf_counter() - t0

    err = model.predict(x[n:], batch_size=512, verbose=0) - y[n:]
    print(f"held-out RMSE {float(np.sqrt(np.mean(err ** 2))):.4f} (sd of target {y[n:].std():.4f})")
    print(f"TRAIN_SECONDS {dt:.2f}")
