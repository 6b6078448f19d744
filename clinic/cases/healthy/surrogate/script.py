"""Surrogate of a turbine simulator: wide regression net, pretrain then refine."""
import argparse

import numpy as np
from tensorflow import keras


def simulator(n, rng):
    x = rng.uniform(-1, 1, (n, 64)).astype("float32")
    w = rng.normal(size=(64, 24))
    return x, np.sin(x @ w).astype("float32")


class Surrogate:
    def __init__(self, width):
        dense = keras.layers.Dense
        self.body = keras.Sequential(
            [keras.Input((64,))] + [dense(width, activation="silu") for _ in range(3)], name="body"
        )
        self.net = keras.Sequential([self.body, dense(24)])
        sgd = keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True)
        self.net.compile(sgd, loss="mse")

    def fit(self, x, y, lr, epochs, batch):
        """Train for some epochs at one learning rate; returns the last loss."""
        self.net.optimizer.learning_rate = lr
        return self.net.fit(x, y, batch_size=batch, epochs=epochs, verbose=2).history["loss"][-1]


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--width", type=int, default=1024)
    cli.add_argument("--batch", type=int, default=512)
    args = cli.parse_args()
    keras.utils.set_random_seed(10)
    rng = np.random.default_rng(10)
    x, y = simulator(20_480, rng)
    s = Surrogate(args.width)
    print("coarse", s.fit(x, y, 0.02, 2, args.batch))
    print("fine loss", s.fit(x, y, 0.005, 1, args.batch))
