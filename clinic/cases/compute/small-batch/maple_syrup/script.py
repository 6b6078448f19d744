#!/usr/bin/env python3
"""Litres of sap per tap and day in a sugar bush.

usage: maple_syrup.py [--epochs 4] [--batch-size 8] [--lr 0.0005]

One row is one tap on one day: freeze/thaw weather of the last days, tree
diameter, crown class, vacuum of the line, age of the tap hole, ...
"""
import argparse
import time

import numpy as np
import keras
from keras import layers

N_TRAIN, N_TEST, N_FEATURES = 16_000, 4_000, 18


def sugar_bush(n, rng):
    x = rng.normal(size=(n, N_FEATURES)).astype("float32")
    thaw = np.maximum(0.0, x[:, 0]) * (x[:, 1] < 0.3)         # warm day after a cold night
    size = 1.0 / (1.0 + np.exp(-x[:, 2]))                      # diameter
    vacuum = 0.5 * x[:, 3] * (x[:, 4] > -0.5)
    ageing = -0.2 * np.abs(x[:, 5])
    litres = 1.5 * thaw * (1.0 + size) + vacuum + ageing + 0.1 * x[:, 6] * x[:, 7]
    litres += rng.normal(0.0, 0.15, size=n)
    return x, litres.astype("float32")[:, None]


def make_model(lr):
    model = keras.Sequential(
        [
            keras.Input((N_FEATURES,)),
            layers.Dense(96, activation="relu"),
            layers.Dense(48, activation="relu"),
            layers.Dense(16, activation="relu"),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(lr), loss="mse", metrics=["mae"])
    return model


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=1867)
    args = parser.parse_args(argv)

    keras.utils.set_random_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    x_train, y_train = sugar_bush(N_TRAIN, rng)
    x_test, y_test = sugar_bush(N_TEST, rng)

    model = make_model(args.lr)
    model.summary()

    begin = time.perf_counter()
    model.fit(x_train, y_train, batch_size=args.batch_size, epochs=args.epochs, verbose=2)
    seconds = time.perf_counter() - begin

    mse, mae = model.evaluate(x_test, y_test, batch_size=1000, verbose=0)
    print(f"test: mse {mse:.4f}  mae {mae:.4f} litres")
    print(f"WORK {args.epochs * N_TRAIN}")
    print(f"TRAIN_SECONDS {seconds:.2f}")


if __name__ == "__main__":
    main()
