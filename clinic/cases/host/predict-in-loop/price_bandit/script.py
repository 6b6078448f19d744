"""Contextual bandit that learns which discount to offer, against a simulated shop."""
import os

os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import jax
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(20)

SMALL = os.environ.get("SMALL") == "1"
STEPS = 12 if SMALL else 900
WARM = 3 if SMALL else 20
WIDTH = 64 if SMALL else 2048
REPLAY = 128 if SMALL else 4096
SHOPPERS, FEATURES, OFFERS = 8, 64, 8


class Shop:
    def __init__(self, seed=4):
        self.rng = np.random.default_rng(seed)
        self.taste = self.rng.normal(0, 1, (FEATURES, OFFERS)).astype("float32") / 8

    def arrivals(self):
        return self.rng.standard_normal((SHOPPERS, FEATURES), dtype="float32")

    def revenue(self, shoppers, offers):
        wanted = (shoppers @ self.taste)[np.arange(len(shoppers)), offers]
        bought = self.rng.random(len(shoppers)) < 1 / (1 + np.exp(-wanted))
        return bought * (1.0 - 0.08 * offers)


class Replay:
    def __init__(self, size):
        self.x = np.zeros((size, FEATURES), "float32")
        self.y = np.zeros((size, OFFERS), "float32")
        self.at = 0

    def add(self, x, y):
        where = (self.at + np.arange(len(x))) % len(self.x)
        self.x[where], self.y[where] = x, y
        self.at += len(x)


def build():
    model = keras.Sequential([keras.Input((FEATURES,))])
    for _ in range(4):
        model.add(layers.Dense(WIDTH, activation="relu"))
    model.add(layers.Dense(OFFERS))
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    return model


def main():
    shop, replay, model = Shop(), Replay(REPLAY), build()
    rng = np.random.default_rng(8)
    earned = 0.0
    for step in range(WARM + STEPS):
        if step == WARM:
            began = time.perf_counter()
        shoppers = shop.arrivals()
        values = np.concatenate([model.predict(one[None], verbose=0) for one in shoppers])
        explore = rng.random(SHOPPERS) < 0.1
        offers = np.where(explore, rng.integers(0, OFFERS, SHOPPERS), values.argmax(axis=1))
        revenue = shop.revenue(shoppers, offers)
        targets = values.copy()
        targets[np.arange(SHOPPERS), offers] = revenue
        replay.add(shoppers, targets)
        loss = model.train_on_batch(replay.x, replay.y)
        earned += revenue.sum()
    jax.block_until_ready([v.value for v in model.trainable_variables])
    took = time.perf_counter() - began
    print(f"revenue per shopper {earned / ((WARM + STEPS) * SHOPPERS):.3f}")
    print(f"steady_ms={1e3 * took / STEPS:.3f} loss={float(loss):.4f}")


if __name__ == "__main__":
    main()
