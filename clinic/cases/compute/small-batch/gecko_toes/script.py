"""Adhesion of gecko toe pads from microscope tiles (regression).

The batch is whatever fits into a budget of memory for the activations, so that the same script can go from a laptop
to a workstation.
"""

import argparse
import logging
import time

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

log = logging.getLogger("gecko")


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--tiles", type=int, default=3072)
    p.add_argument("--side", type=int, default=24)
    p.add_argument("--budget-kib", type=float, default=512.0, help="memory for the activations of one batch")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--seed", type=int, default=4)
    return p.parse_args()


def tiles(count, side, seed):
    """Rows of setae: stripes whose density and order decide how well the toe sticks."""
    rng = np.random.default_rng(seed)
    density = rng.uniform(2, 7, count)
    disorder = rng.uniform(0, 1, count)
    t = np.linspace(0, 1, side)
    phase = rng.uniform(0, 2 * np.pi, (count, 1, 1)) + disorder[:, None, None] * rng.normal(0, 1, (count, side, 1))
    x = np.sin(2 * np.pi * density[:, None, None] * t[None, None, :] + phase)
    y = density / 7 - 0.5 * disorder
    return x.astype("float32")[..., None], y.astype("float32")


def pad_net(side):
    inputs = keras.Input((side, side, 1))
    x = layers.Conv2D(8, 3, strides=2, padding="same")(inputs)
    for width in (16, 24):
        skip = layers.Conv2D(width, 1)(layers.AveragePooling2D(2)(x))
        x = layers.Conv2D(width, 3, strides=2, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.Activation("swish")(x + skip)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(32, activation="swish")(x)
    return keras.Model(inputs, layers.Dense(1)(x), name="pad_net")


def bytes_per_sample(model):
    """What the outputs of all layers of one sample take."""
    numbers = sum(int(np.prod(layer.output.shape[1:])) for layer in model.layers)
    bits = numbers * 32
    return 2 * bits  # forward and backward


def batch_that_fits(model, budget):
    return int(max(1, budget // bytes_per_sample(model)))


class Adhesion:
    def __init__(self, args):
        keras.utils.set_random_seed(args.seed)
        self.args = args
        self.model = pad_net(args.side)
        self.batch = batch_that_fits(self.model, args.budget_kib * 1024)

    def train(self):
        x, y = tiles(self.args.tiles, self.args.side, self.args.seed)
        self.model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
        cut = len(x) - 256
        began = time.perf_counter()
        self.model.fit(x[:cut], y[:cut], batch_size=self.batch, epochs=self.args.epochs, verbose=2)
        took = time.perf_counter() - began
        log.info("%d samples in %.2f s, %.3f ms a sample", cut, took, took / cut / self.args.epochs * 1e3)
        log.info("held out: %s", self.model.evaluate(x[cut:], y[cut:], batch_size=256, verbose=0))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    run = Adhesion(parse())
    log.info("%d parameters", run.model.count_params())
    run.train()
