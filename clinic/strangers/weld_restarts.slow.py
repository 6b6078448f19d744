"""Weld seam classifier trained with warm restarts of the learning rate."""
import math
import time

import numpy as np
import keras
from keras import layers

PLAN = dict(cycles=3, epochs_per_cycle=4, high=2e-3, low=1e-4)


def seams(n=480, size=32, seed=9):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.normal(0, 0.3, (n, size, size, 1))
    rows = np.arange(size)
    for k in range(3):
        x[y == k] += np.sin(rows / (1.5 + k))[None, :, None, None]
    return x.astype("float32"), y.astype("int32")


def network(size=32):
    inp = layers.Input((size, size, 1))
    x = inp
    for f in (8, 16):
        x = layers.Conv2D(f, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(3, activation="softmax")(x))


class Session:
    """Holds a model and the rate it is currently trained at."""

    def __init__(self, model, plan):
        self.model, self.plan, self.history = model, plan, []

    def rate(self, epoch):
        pos = (epoch % self.plan["epochs_per_cycle"]) / self.plan["epochs_per_cycle"]
        span = self.plan["high"] - self.plan["low"]
        return self.plan["low"] + 0.5 * span * (1 + math.cos(math.pi * pos))

    def use_rate(self, lr):
        self.model.compile(
            optimizer=keras.optimizers.Adam(learning_rate=lr),
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"],
        )

    def run(self, x, y):
        for epoch in range(self.plan["cycles"] * self.plan["epochs_per_cycle"]):
            lr = self.rate(epoch)
            self.use_rate(lr)
            h = self.model.fit(x, y, batch_size=48, epochs=1, verbose=0)
            self.history.append(h.history["accuracy"][0])
            print("epoch %2d  lr %.5f  acc %.3f" % (epoch, lr, self.history[-1]))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    x, y = seams()
    session = Session(network(), PLAN)
    t0 = time.time()
    session.run(x, y)
    print("TRAIN_SECONDS %.2f" % (time.time() - t0))
