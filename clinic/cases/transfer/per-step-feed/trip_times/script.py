"""Travel time of delivery trips from their GPS points, as they come from the fleet's export."""
import os
import random

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf

POINTS, CHANNELS, BATCH = 120, 10, 64


class Trip:
    __slots__ = ("track", "minutes")

    def __init__(self, r):
        pace = r.uniform(0.5, 2.0)
        track = r.normal(size=(POINTS, CHANNELS)) * pace
        self.track = track.tolist()
        self.minutes = float(10 * pace + np.abs(track[:, 0]).sum() * 0.05)


def export(n, seed=0):
    r = np.random.default_rng(seed)
    return [Trip(r) for _ in range(n)]


class Estimator:
    def __init__(self):
        self.net = keras.Sequential([
            keras.Input((POINTS, CHANNELS)),
            keras.layers.Conv1D(16, 5, strides=2, activation="relu"),
            keras.layers.Conv1D(24, 5, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1),
        ])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)
        self.total = tf.Variable(0.0)

    @tf.function(reduce_retracing=True)
    def learn(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(self.net(x, training=True)[:, 0] - y))
        g = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(g, self.net.trainable_variables))
        self.total.assign_add(loss)

    def sweep(self, trips, order):
        for at in range(0, len(order) - BATCH + 1, BATCH):
            group = [trips[i] for i in order[at:at + BATCH]]
            self.learn(tf.convert_to_tensor([t.track for t in group], tf.float32),
                       tf.convert_to_tensor([t.minutes for t in group], tf.float32))


def main():
    trips = export(1600)
    e, order = Estimator(), list(range(len(trips)))
    random.seed(1)
    for epoch in range(14):
        random.shuffle(order)
        e.total.assign(0.0)
        e.sweep(trips, order)
        print("epoch", epoch, "mean abs error", round(float(e.total) / (len(trips) // BATCH), 3))


main()
