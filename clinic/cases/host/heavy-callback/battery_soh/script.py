"""State of health of lithium cells from one charging curve (voltage, current, temperature)."""
import argparse
import pathlib
import tempfile
import time

import keras
import numpy as np
from keras import layers


def simulate_cells(n, points, rng):
    soh = rng.uniform(0.6, 1.0, n).astype("float32")
    t = np.linspace(0, 1, points, dtype="float32")
    volt = 3.0 + 1.2 * (1 - np.exp(-t[None] * (3 + 4 * (1 - soh[:, None]))))
    amp = np.where(t[None] < soh[:, None] * 0.7, 1.0, np.exp(-6 * (t[None] - soh[:, None] * 0.7)))
    temp = 25 + 10 * (1.1 - soh[:, None]) * np.sin(np.pi * t[None])
    x = np.stack([volt, amp, temp / 40], -1).astype("float32")
    x += rng.normal(0, 0.02, x.shape).astype("float32")
    return x, soh


def residual(x, filters, width):
    y = layers.Conv1D(filters, width, padding="causal", activation="relu")(x)
    y = layers.Conv1D(filters, 1)(y)
    return layers.ReLU()(layers.Add()([x, y]))


def tcn(points, filters=16):
    inp = keras.Input((points, 3))
    x = layers.Conv1D(filters, 4, strides=4, activation="relu")(inp)
    for width in (3, 5, 7):
        x = residual(x, filters, width)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    return keras.Model(inp, layers.Dense(1)(x), name="soh_tcn")


def get_callbacks(folder, args):
    return [
        keras.callbacks.ModelCheckpoint(str(folder / "soh_last.keras"), save_freq=args.save_every),
        keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=4, factor=0.5),
        keras.callbacks.CSVLogger(str(folder / "history.csv")),
        keras.callbacks.TerminateOnNaN(),
    ]


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--cells", type=int, default=3840)
    p.add_argument("--points", type=int, default=128)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--save-every", type=int, default=5)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    keras.utils.set_random_seed(33)
    x, y = simulate_cells(args.cells, args.points, np.random.default_rng(33))
    model = tcn(args.points)
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    with tempfile.TemporaryDirectory() as d:
        callbacks = get_callbacks(pathlib.Path(d), args)
        start = time.perf_counter()
        h = model.fit(x, y, batch_size=args.batch, epochs=args.epochs, callbacks=callbacks, verbose=2)
        elapsed = time.perf_counter() - start
    print("mae %.4f" % h.history["mae"][-1])
    print("WORK", args.epochs * -(-args.cells // args.batch))
    print("TRAIN_SECONDS %.3f" % elapsed)
