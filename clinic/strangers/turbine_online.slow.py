"""Online adaptation of a turbine power model: every minute a new block of telemetry arrives."""
import collections

import numpy as np
import tensorflow as tf
from tensorflow import keras


def telemetry(blocks, rows, seed=7):
    rng = np.random.default_rng(seed)
    drift = 0.0
    for _ in range(blocks):
        drift += rng.normal(scale=0.02)
        wind = rng.weibull(2.0, size=(rows, 1))
        rest = rng.normal(size=(rows, 11))
        power = np.clip((wind[:, 0] + drift) ** 3 / 4.0, 0, 1) + 0.02 * rest[:, 0]
        yield np.hstack([wind, rest]).astype("float32"), power.astype("float32")[:, None]


def regressor():
    net = keras.Sequential([
        keras.Input((12,)),
        keras.layers.Dense(96, activation="swish"),
        keras.layers.Dense(96, activation="swish"),
        keras.layers.Dense(1),
    ])
    net.compile(keras.optimizers.RMSprop(1e-3), loss="mse")
    return net


class OnlineModel:
    def __init__(self):
        self.net = regressor()
        self.recent = collections.deque(maxlen=50)

    def absorb(self, x, y):
        hist = self.net.fit(x, y, batch_size=len(x), epochs=1, verbose=0)
        self.recent.append(hist.history["loss"][0])

    def report(self, k):
        print(f"block {k:4d}  recent mse {np.mean(self.recent):.5f}")


def main():
    om = OnlineModel()
    for k, (x, y) in enumerate(telemetry(blocks=120, rows=60)):
        om.absorb(x, y)
        if k % 40 == 0:
            om.report(k)
    om.report(120)


main()
