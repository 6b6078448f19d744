"""Fuel burnt on a ferry crossing from voyage data: a dense network with large batches."""
import argparse
import time

import keras
import numpy as np


def voyages(rows, columns, seed=29):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns)).astype("float32")
    speed = 1 + np.abs(x[:, 0])
    fuel = speed ** 3 * 0.1 + 0.4 * x[:, 1] * speed + 0.2 * np.maximum(x[:, 2], 0) + 0.05 * x[:, 3:].sum(1)
    fuel += 0.1 * rng.normal(size=rows)
    return x, ((fuel - fuel.mean()) / fuel.std()).astype("float32")[:, None]


class FuelModel(keras.Model):
    def __init__(self, width, depth):
        super().__init__()
        self.hidden = [keras.layers.Dense(width, activation="relu") for _ in range(depth)]
        self.out = keras.layers.Dense(1)

    def call(self, x):
        for dense in self.hidden:
            x = dense(x)
        return self.out(x)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=163840)
    p.add_argument("--columns", type=int, default=64)
    p.add_argument("--batch", type=int, default=2048)
    p.add_argument("--epochs", type=int, default=2)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    keras.utils.set_random_seed(4)
    x, y = voyages(args.rows, args.columns)
    model = FuelModel(512, 3)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
    start = time.time()
    model.fit(x, y, batch_size=args.batch, epochs=args.epochs, verbose=2)
    print("WORK", args.rows * args.epochs)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))
