"""Metric learning for chess openings: pull games of one opening together."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

BOARD, OPENINGS, GAMES = 192, 30, 9000


def library(seed=17):
    g = np.random.default_rng(seed)
    centre = g.normal(size=(OPENINGS, BOARD))
    opening = g.integers(0, OPENINGS, GAMES)
    return (centre[opening] + 1.5 * g.normal(size=(GAMES, BOARD))).astype("float32"), opening


def encoder():
    return keras.Sequential([
        keras.Input((BOARD,)),
        keras.layers.Dense(1024, activation="relu"),
        keras.layers.LayerNormalization(),
        keras.layers.Dense(1024, activation="relu"),
        keras.layers.Dense(48),
    ], name="encoder")


class Rivals:
    """Keeps an eye on games that look alike but are not of the same opening."""

    def __init__(self, net, games, opening, pool=256):
        self.net, self.games, self.opening, self.pool = net, games, opening, pool
        self.rng = np.random.default_rng(4)

    @property
    def lineup(self):
        pick = self.rng.integers(0, len(self.games), self.pool)
        return pick, self.net.predict(self.games[pick], verbose=0)

    def against(self, ids):
        pick, z = self.lineup
        mine = z[: len(ids)]
        far = ((mine[:, None] - z[None]) ** 2).sum(-1)
        far[self.opening[pick[: len(ids)]][:, None] == self.opening[pick][None]] = np.inf
        return pick[: len(ids)], pick[far.argmin(1)]


class TripletTrainer:
    def __init__(self, batch=64):
        self.games, self.opening = library()
        self.net = encoder()
        self.rivals = Rivals(self.net, self.games, self.opening)
        self.opt = keras.optimizers.Adam(5e-4)
        self.opt.build(self.net.trainable_variables)
        self.batch = batch
        self.mates = [np.flatnonzero(self.opening == k) for k in range(OPENINGS)]
        self.rng = np.random.default_rng(6)

    @tf.function
    def pull(self, a, p, n):
        with tf.GradientTape() as tape:
            za, zp, zn = tf.split(self.net(tf.concat([a, p, n], 0), training=True), 3)
            gap = tf.reduce_sum((za - zp) ** 2 - (za - zn) ** 2, -1)
            loss = tf.reduce_mean(tf.nn.relu(gap + 1.0))
        self.opt.apply_gradients(zip(tape.gradient(loss, self.net.trainable_variables), self.net.trainable_variables))
        return loss

    def turn(self):
        anchor, rival = self.rivals.against(np.arange(self.batch))
        mate = [self.rng.choice(self.mates[self.opening[k]]) for k in anchor]
        return self.pull(self.games[anchor], self.games[mate], self.games[rival])


trainer = TripletTrainer()
for _ in range(5):
    trainer.turn()
TURNS = 200
t0 = time.perf_counter()
for turn in range(TURNS):
    loss = trainer.turn()
t1 = time.perf_counter()
print("triplet loss", float(loss))
print("WORK", TURNS * trainer.batch)
print("TRAIN_SECONDS", round(t1 - t0, 3))
