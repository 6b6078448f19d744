"""Deep hedging: a GRU decides how much of the stock to hold each day.

Paths come from the desk's scenario service (here a stand-in on a socket pair).
"""
import socket
import threading
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

DAYS = 60
PATHS = 256          # paths in one update
UPDATES = 520


class ScenarioService(threading.Thread):
    def __init__(self, wire, library=20_000, seed=5, round_trip=0.008):
        super().__init__(daemon=True)
        g = np.random.default_rng(seed)
        steps = g.standard_normal((library, DAYS), dtype=np.float32) * np.float32(0.013)
        close = np.exp(np.cumsum(steps, axis=1))
        high = close * (1 + np.abs(g.standard_normal(close.shape, dtype=np.float32)) * np.float32(0.006))
        self.paths = np.stack([close, high], axis=-1).astype("<f4")
        self.rng, self.wire, self.round_trip = g, wire, round_trip

    def run(self):
        while self.wire.recv(1):
            time.sleep(self.round_trip)
            self.wire.sendall(self.paths[self.rng.integers(0, len(self.paths), PATHS)].tobytes())


class ScenarioClient:
    def __init__(self):
        self.wire, far = socket.socketpair()
        ScenarioService(far).start()
        self.inbox = bytearray(PATHS * DAYS * 2 * 4)

    def scenario(self):
        self.wire.sendall(b"?")
        view, got = memoryview(self.inbox), 0
        while got < len(self.inbox):
            got += self.wire.recv_into(view[got:])
        return np.frombuffer(self.inbox, "<f4").reshape(PATHS, DAYS, 2).copy()

    def __iter__(self):
        while True:
            yield self.scenario()


class Hedger(keras.Model):
    def __init__(self, units=48):
        super().__init__()
        self.memory = keras.layers.GRU(units, return_sequences=True)
        self.hold = keras.layers.Dense(1, activation="sigmoid")

    def call(self, x):
        return self.hold(self.memory(x))[..., 0]


class Desk:
    def __init__(self, lr=2e-3):
        self.net = Hedger()
        self.net(tf.zeros([1, DAYS - 1, 2]))
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def rehearse(self, paths):
        close = paths[..., 0]
        with tf.GradientTape() as tape:
            held = self.net(paths[:, :-1] - 1.0, training=True)
            gains = tf.reduce_sum(held * (close[:, 1:] - close[:, :-1]), axis=1)
            owed = tf.nn.relu(close[:, -1] - 1.0)
            risk = tf.reduce_mean(tf.square(gains - owed + 0.02))
        grads = tape.gradient(risk, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return risk

    def train(self, feed, updates):
        for _, paths in zip(range(updates), feed):
            risk = self.rehearse(paths)
        return risk


def scenarios():
    return iter(ScenarioClient())


def main():
    desk = Desk()
    feed = scenarios()
    desk.train(feed, 4)
    t0 = time.perf_counter()
    risk = desk.train(feed, UPDATES)
    took = time.perf_counter() - t0
    print(f"final risk {float(risk):.5f}")
    print("WORK", UPDATES * PATHS)
    print("TRAIN_SECONDS", round(took, 3))


if __name__ == "__main__":
    main()
