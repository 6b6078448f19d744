"""Prequential (test, then train) evaluation of a demand model."""
import argparse
from collections import defaultdict

import numpy as np
import tensorflow as tf


class Marketplace:
    def __init__(self, hours, offers, features, seed=4):
        rng = np.random.default_rng(seed)
        self.x = rng.standard_normal((hours, offers, features), dtype=np.float32)
        drift = np.linspace(0.5, 1.5, hours, dtype=np.float32)[:, None]
        self.y = (drift * self.x[..., 0] + self.x[..., 1])[..., None]

    def hours(self):
        for hour, (x, y) in enumerate(zip(self.x, self.y)):
            yield hour, x, y


def demand_model(features):
    inputs = tf.keras.Input((features,))
    x = tf.keras.layers.Dense(128, activation="relu")(inputs)
    x = tf.keras.layers.Dense(64, activation="relu")(x)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(x))
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss="mse")
    return model


def assess(model, x, y):
    return model.evaluate(x, y, batch_size=len(x), verbose=0)


def learn(model, x, y):
    model.fit(x, y, epochs=1, batch_size=len(x), verbose=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hours", type=int, default=24 * 180)
    parser.add_argument("--offers", type=int, default=256)
    parser.add_argument("--features", type=int, default=40)
    args = parser.parse_args()

    market = Marketplace(args.hours, args.offers, args.features)
    model = demand_model(args.features)
    by_month = defaultdict(list)
    for hour, x, y in market.hours():
        by_month[hour // (24 * 30)].append(assess(model, x, y))
        learn(model, x, y)
    for month, errors in by_month.items():
        print(f"month {month}: mse {np.mean(errors):.4f}")


if __name__ == "__main__":
    main()
