"""Harbour tide gauge forecast with a cyclic (triangular) learning rate."""
import time

import keras
import numpy as np


def gauge(hours=9000, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    level = np.sin(2 * np.pi * t / 12.42) + 0.3 * np.sin(2 * np.pi * t / 24.0) + 0.1 * np.sin(2 * np.pi * t / 327.9)
    return (level + rng.normal(0, 0.04, hours)).astype("float32")


def windows(series, past=48, ahead=6):
    v = np.lib.stride_tricks.sliding_window_view(series, past + ahead)
    return v[:, :past, None].copy(), v[:, past:].copy()


def make_model(past, ahead):
    return keras.Sequential([
        keras.Input((past, 1)),
        keras.layers.Conv1D(16, 5, dilation_rate=1, padding="causal", activation="relu"),
        keras.layers.Conv1D(16, 5, dilation_rate=2, padding="causal", activation="relu"),
        keras.layers.Conv1D(16, 5, dilation_rate=4, padding="causal", activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(ahead),
    ])


def triangular(k, low=2e-4, high=4e-3, half=5):
    pos = k % (2 * half)
    frac = pos / half if pos < half else 2 - pos / half
    return low + (high - low) * frac


def main():
    x, y = windows(gauge())
    split = 3200
    x_tr, y_tr, x_te, y_te = x[:split], y[:split], x[-500:], y[-500:]
    model = make_model(48, 6)
    curve = []
    t0 = time.perf_counter()
    for k in range(8):
        lr = triangular(k)
        model.compile(optimizer=keras.optimizers.SGD(learning_rate=lr), loss="mse", metrics=["mae"])
        h = model.fit(x_tr, y_tr, batch_size=32, epochs=1, verbose=0)
        curve.append((lr, h.history["loss"][0]))
        print(f"cycle step {k:02d} lr {lr:.5f} loss {curve[-1][1]:.5f}")
    spent = time.perf_counter() - t0
    print("test", model.evaluate(x_te, y_te, verbose=0))
    print("WORK", 8 * split)
    print("TRAIN_SECONDS %.3f" % spent)


if __name__ == "__main__":
    main()
