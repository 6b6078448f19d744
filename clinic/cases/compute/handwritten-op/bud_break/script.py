"""Day of bud break from daily weather: learned warmth units are summed over the season, a threshold curve reads them."""
import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, losses, optimizers

DAYS = 180


def seasons(n, rng):
    day = np.arange(DAYS)
    base = 4 + 9 * np.sin((day - 60) / 180 * np.pi)
    temp = base[None] + rng.normal(0, 2, (n, 1)) + rng.normal(0, 3, (n, DAYS))
    light = 8 + 6 * np.sin(day / 180 * np.pi)[None] + np.zeros((n, 1))
    rain = rng.gamma(0.6, 3.0, (n, DAYS))
    warmth = np.clip(temp - 5, 0, None).cumsum(1)
    broken = (warmth > rng.normal(420, 20, (n, 1))).astype("float32")
    weather = np.stack([temp / 10, light / 10, rain / 10], -1).astype("float32")
    return weather, broken


class Warmth(layers.Layer):
    """Sum of the daily units since the first of January, for each unit."""

    def call(self, units):
        total = tf.zeros_like(units[:, 0])
        so_far = []
        for day in range(DAYS):
            total = total + units[:, day]
            so_far.append(total)
        return tf.stack(so_far, axis=1)


class BudBreak(tf.keras.Model):
    def __init__(self, units):
        super().__init__()
        self.response = tf.keras.Sequential([
            layers.Dense(units, activation="relu"),
            layers.Dense(units, activation="softplus"),
        ])
        self.warmth = Warmth()
        self.read = layers.Dense(1)

    def call(self, weather):
        units = self.response(weather)
        return self.read(self.warmth(units) / 50.0)[..., 0]


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--units", type=int, default=24)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--steps", type=int, default=250)
    a = ap.parse_args(argv)
    weather, broken = seasons(8000, np.random.default_rng(3))
    ds = tf.data.Dataset.from_tensor_slices((weather, broken)).shuffle(8000).repeat().batch(a.batch).prefetch(4)
    model = BudBreak(a.units)
    opt = optimizers.Adam(1e-3)
    bce = losses.BinaryCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = bce(y, model(x, training=True))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    start = time.time()
    for i, (x, y) in enumerate(ds.take(a.steps)):
        loss = step(x, y)
        if i % 50 == 0:
            print("step", i, "loss", round(float(loss), 4))
    print("WORK", a.steps * a.batch)
    print("TRAIN_SECONDS %.3f" % (time.time() - start))


if __name__ == "__main__":
    main()
