"""Carbonate chemistry on a reef from cheap sensors. Bottle samples are missing for many of the readings."""
import time
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")


class Survey(NamedTuple):
    sensors: np.ndarray
    alkalinity: np.ndarray


def survey(days=44, per_day=512, seed=9):
    rng = np.random.default_rng(seed)
    sensors = rng.normal(size=(days, per_day, 24)).astype("float32")
    truth = np.sin(sensors[..., 0]) + 0.4 * sensors[..., 1] * sensors[..., 2] + 0.2 * sensors[..., 5]
    alk = (truth + 0.1 * rng.normal(size=truth.shape)).astype("float32")
    weather = rng.beta(2, 3, size=(days, 1))          # rough days: hardly a bottle
    alk[rng.uniform(size=alk.shape) < weather] = np.nan
    return Survey(sensors, alk)


class Chemistry(keras.Model):
    def __init__(self, width):
        super().__init__()
        self.stem = keras.layers.Dense(width, activation="relu")
        self.res = [keras.layers.Dense(width, activation="relu") for _ in range(3)]
        self.head = keras.layers.Dense(2)

    def call(self, x):
        h = self.stem(x)
        for dense in self.res:
            h = h + dense(h)
        return self.head(h)


def run(data: Survey, epochs: int):
    model = Chemistry(320)
    opt = keras.optimizers.Adam(3e-4, clipnorm=5.0)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            out = model(x, training=True)
            mean, logvar = out[:, 0], tf.clip_by_value(out[:, 1], -6.0, 6.0)
            nll = 0.5 * (logvar + tf.square(y - mean) * tf.exp(-logvar))
            loss = tf.reduce_mean(nll)
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    steps = 0
    for epoch in range(epochs):
        losses = []
        for x, y in zip(data.sensors, data.alkalinity):
            known = ~np.isnan(y)
            losses.append(step(x[known], y[known]))
            steps += 1
        print(f"epoch {epoch}: nll {np.mean([float(v) for v in losses]):.4f}")
    return steps


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    data = survey()
    start = time.time()
    steps = run(data, epochs=2)
    print("WORK", steps * data.sensors.shape[1])
    print("TRAIN_SECONDS %.3f" % (time.time() - start))
