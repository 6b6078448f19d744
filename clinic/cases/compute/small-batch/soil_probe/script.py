"""Soil moisture from a probe's eight channels."""
import argparse

import numpy as np
import tensorflow as tf
import keras


def probe(n):
    rng = np.random.default_rng(100)
    x = rng.normal(size=(n, 8)).astype("float32")
    y = (np.sin(x[:, :1]) + 0.3 * x[:, 1:2] * x[:, 2:3]).astype("float32")
    return x, y


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--samples", type=int, default=20480)
    p.add_argument("--batch-size", type=int, default=4)
    p.add_argument("--epochs", type=int, default=1)
    return p.parse_args()


class Residual(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.a = keras.layers.Dense(units, activation="swish")
        self.b = keras.layers.Dense(units)

    def build(self, shape):
        self.a.build(shape)
        self.b.build((shape[0], self.a.units))

    def call(self, x):
        return x + self.b(self.a(x))


def regressor():
    inp = keras.Input((8,))
    x = keras.layers.Dense(32)(inp)
    for _ in range(3):
        x = Residual(32)(x)
    return keras.Model(inp, keras.layers.Dense(1)(x))


def main():
    args = parse()
    keras.utils.set_random_seed(100)
    x, y = probe(args.samples)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(args.samples, seed=1)
    ds = ds.batch(args.batch_size, drop_remainder=True).prefetch(8)
    model = regressor()
    model.compile(keras.optimizers.Adam(1e-3), "mse")
    model.fit(ds, epochs=args.epochs, verbose=2)


if __name__ == "__main__":
    main()
