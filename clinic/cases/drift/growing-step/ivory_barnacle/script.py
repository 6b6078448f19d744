"""Online wear prediction for ship hulls: readings arrive in bursts and are used once, as they come."""
import abc
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

PROBES = 40


class Scaler(abc.ABC):
    @abc.abstractmethod
    def update(self, burst): ...

    @abc.abstractmethod
    def apply(self, burst): ...


class FairScaler(Scaler):
    """Zero mean and unit spread with respect to all that has been read up to now."""

    def __init__(self):
        self.readings = []

    def update(self, burst):
        self.readings.extend(burst)

    @property
    def stats(self):
        everything = np.asarray(self.readings)
        return everything.mean(0), everything.std(0) + 1e-6

    def apply(self, burst):
        mu, sd = self.stats
        return ((burst - mu) / sd).astype("float32")


class Hull:
    def __init__(self, seed=33):
        self.g = np.random.default_rng(seed)
        self.w = self.g.normal(size=(PROBES, 1))

    def burst(self, n):
        x = self.g.normal(5.0, 3.0, (n, PROBES))
        y = np.tanh((x - 5) @ self.w / 12) + 0.05 * self.g.normal(size=(n, 1))
        return x.astype("float32"), y.astype("float32")


class OnlineLearner:
    def __init__(self, scaler):
        self.scaler = scaler
        self.net = keras.Sequential([keras.Input((PROBES,)), keras.layers.Dense(1024, activation="tanh"),
                                     keras.layers.Dense(1024, activation="tanh"), keras.layers.Dense(1)])
        self.opt = keras.optimizers.SGD(0.01, momentum=0.9)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def _nudge(self, x, y):
        with tf.GradientTape() as tape:
            err = tf.reduce_mean((self.net(x, training=True) - y) ** 2)
        v = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(err, v), v))
        return err

    def consume(self, x, y):
        self.scaler.update(x)
        return self._nudge(self.scaler.apply(x), y)


def sail(bursts=1000, size=64):
    hull, learner = Hull(), OnlineLearner(FairScaler())
    for _ in range(3):
        learner.consume(*hull.burst(size))
    t = time.perf_counter()
    for k in range(bursts):
        err = learner.consume(*hull.burst(size))
        if k % 250 == 0:
            print(f"burst {k}: {float(err):.4f}")
    return bursts * size, time.perf_counter() - t


work, secs = sail()
print("WORK", work)
print("TRAIN_SECONDS", round(secs, 3))
