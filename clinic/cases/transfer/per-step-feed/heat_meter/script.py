"""Forecast tomorrow's consumption of district heating meters from the last two weeks."""
import random
import time

import keras
import tensorflow as tf
import numpy as np

HISTORY = 336
AHEAD = 24


def read_meters(count=400, seed=0):
    """Readings as the meter archive returns them: one list of floats per meter."""
    rng = np.random.default_rng(seed)
    t = np.arange(HISTORY + AHEAD + 200)
    phase = rng.uniform(0, 24, (count, 1))
    level = rng.uniform(0.5, 2.0, (count, 1))
    load = level * (1 + 0.5 * np.sin(2 * np.pi * (t + phase) / 24)) + rng.normal(0, 0.05, (count, len(t)))
    return load.tolist()


class Windows:
    def __init__(self, meters):
        self.meters = meters

    def batch(self, size):
        inputs, targets = [], []
        for _ in range(size):
            series = self.meters[random.randrange(len(self.meters))]
            s = random.randrange(len(series) - HISTORY - AHEAD)
            inputs.append(series[s:s + HISTORY])
            targets.append(series[s + HISTORY:s + HISTORY + AHEAD])
        return inputs, targets


class Forecaster:
    def __init__(self):
        self.model = keras.Sequential([
            keras.Input((HISTORY,)),
            keras.layers.Dense(96, activation="relu"),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(AHEAD),
        ])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.model.trainable_variables)

    @tf.function
    def update(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self.model(x, training=True) - y))
        self.opt.apply(tape.gradient(loss, self.model.trainable_variables))
        return loss


def train(steps=900, batch=128):
    random.seed(4)
    keras.utils.set_random_seed(4)
    windows, net = Windows(read_meters()), Forecaster()
    running = tf.Variable(0.0)
    start = time.time()
    for i in range(1, steps + 1):
        x, y = windows.batch(batch)
        x = tf.convert_to_tensor(x, dtype=tf.float32)
        y = tf.convert_to_tensor(y, dtype=tf.float32)
        running.assign_add(net.update(x, y))
        if i % 150 == 0:
            print("step %d mae %.4f" % (i, running.numpy() / 150))
            running.assign(0.0)
    print("WORK", steps * batch)
    print("TRAIN_SECONDS %.2f" % (time.time() - start))


if __name__ == "__main__":
    train()
