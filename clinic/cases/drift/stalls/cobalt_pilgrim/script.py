"""Contextual bandit for hostel recommendations with a reservoir of past choices."""
import json
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

CONTEXT, HOSTELS = 24, 40


class Reservoir:
    """Ring of past (context, hostel, stars); survives a crash because it is kept on disk too."""

    def __init__(self, size, folder, seed=44):
        self.rng = np.random.default_rng(seed)
        self.context = self.rng.normal(size=(size, CONTEXT)).astype(np.float32)
        self.hostel = self.rng.integers(0, HOSTELS, size)
        self.stars = self.rng.uniform(0, 5, size).astype(np.float32)
        self.head, self.writes = 0, 0
        self.path = os.path.join(folder, "reservoir.json")

    def add(self, context, hostel, stars):
        n = len(stars)
        at = (self.head + np.arange(n)) % len(self.stars)
        self.context[at], self.hostel[at], self.stars[at] = context, hostel, stars
        self.head = int(at[-1]) + 1
        self.writes += 1
        if self.writes % 80 == 0:
            self.persist()

    def persist(self):
        with open(self.path + ".tmp", "w") as f:
            json.dump({"context": self.context.tolist(), "hostel": self.hostel.tolist(),
                       "stars": self.stars.tolist(), "head": self.head}, f)
        os.replace(self.path + ".tmp", self.path)

    def draw(self, n):
        k = self.rng.integers(0, len(self.stars), n)
        return self.context[k], self.hostel[k].astype(np.int32), self.stars[k]


class Guide(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = keras.layers.Dense(192, activation="relu")
        self.b = keras.layers.Dense(192, activation="relu")
        self.rate = keras.layers.Dense(HOSTELS)

    def call(self, x):
        return self.rate(self.b(self.a(x)))


class Road:
    def __init__(self, folder):
        self.guide = Guide()
        self.guide(tf.zeros([1, CONTEXT]))
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.guide.trainable_variables)
        self.past = Reservoir(24_000, folder)
        self.rng = np.random.default_rng(9)

    @tf.function
    def learn(self, x, h, s):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.gather(self.guide(x), h, batch_dims=1) - s) ** 2)
        v = self.guide.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss

    @tf.function
    def choose(self, x):
        return tf.argmax(self.guide(x), -1)

    def day(self):
        guests = self.rng.normal(size=(16, CONTEXT)).astype(np.float32)
        pick = self.choose(guests).numpy()
        self.past.add(guests, pick, np.clip(3 + guests[:, 0] * (pick % 5 - 2), 0, 5))
        return self.learn(*self.past.draw(256))


with tempfile.TemporaryDirectory() as tmp:
    road = Road(tmp)
    for _ in range(5):
        road.day()
    DAYS = 1440
    t0 = time.perf_counter()
    for d in range(DAYS):
        loss = road.day()
    print("loss", float(loss))
    t1 = time.perf_counter()
print("WORK", DAYS * 256)
print("TRAIN_SECONDS", round(t1 - t0, 3))
