"""Remaining life of wind turbine bearings from hourly vibration features."""
import argparse
import time

import keras
import numpy as np
from keras import layers


def bearings(n, hours, feats, seed=17):
    rng = np.random.default_rng(seed)
    wear = rng.uniform(0.2, 1.0, (n, 1, 1))
    t = np.linspace(0, 1, hours)[None, :, None]
    x = wear * t ** 2 + 0.1 * rng.normal(size=(n, hours, feats))
    return x.astype("float32"), (1 - wear[:, 0, 0]).astype("float32")


def bearing_model(hours, feats, units):
    inp = keras.Input((hours, feats))
    h = layers.GRU(units, return_sequences=True, unroll=True, name="slow_wear")(inp)
    h = layers.GRU(units, unroll=True, name="fast_wear")(h)
    h = layers.Dense(16, activation="relu")(h)
    return keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--hours", type=int, default=40)
    ap.add_argument("--units", type=int, default=24)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--samples", type=int, default=1280)
    opt = ap.parse_args()
    x, y = bearings(opt.samples, opt.hours, 8)
    t0 = time.time()
    model = bearing_model(opt.hours, 8, opt.units)
    model.compile(keras.optimizers.RMSprop(1e-3), "mae", metrics=["mse"])
    h = model.fit(x, y, batch_size=64, epochs=opt.epochs, verbose=2)
    spent = time.time() - t0
    print("mae", h.history["loss"][-1], "params", model.count_params())
    print("WORK", opt.samples * opt.epochs)
    print("TRAIN_SECONDS %.2f" % spent)


if __name__ == "__main__":
    main()
