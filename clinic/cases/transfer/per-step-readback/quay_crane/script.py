"""Q-learning of a quay crane with a prioritised memory of its lifts."""
import time

import numpy as np
import tensorflow as tf


class LiftMemory:
    def __init__(self, size, rng):
        self.rng = rng
        self.s = rng.normal(size=(size, 8)).astype("float32")
        self.a = rng.integers(0, 5, size)
        self.r = (self.s[np.arange(size), self.a] > 0).astype("float32")
        self.s2 = self.s + rng.normal(0, .1, self.s.shape).astype("float32")
        self.priority = np.ones(size)

    def draw(self, n):
        p = self.priority / self.priority.sum()
        rows = self.rng.choice(len(p), n, p=p)
        return rows, (self.s[rows], self.a[rows], self.r[rows], self.s2[rows])

    def revise(self, rows, surprise):
        for k, row in enumerate(rows):
            self.priority[row] = abs(float(surprise[k])) + 1e-3


def q_net():
    return tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(64, activation="relu"),
                                tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(5)])


class Crane:
    def __init__(self):
        self.q, self.target = q_net(), q_net()
        self.opt = tf.keras.optimizers.Adam(5e-4)

    @tf.function
    def improve(self, s, a, r, s2):
        goal = r + .95 * tf.reduce_max(self.target(s2), 1)
        with tf.GradientTape() as tape:
            q = tf.gather(self.q(s), a, axis=1, batch_dims=1)
            loss = tf.reduce_mean(tf.square(goal - q))
        v = self.q.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return goal - q

    def sync(self):
        self.target.set_weights(self.q.get_weights())


def shift(crane, memory, lifts=250, batch=128):
    for lift in range(lifts):
        rows, sample = memory.draw(batch)
        surprise = crane.improve(*sample)
        memory.revise(rows, surprise)
        if lift % 50 == 0:
            crane.sync()


if __name__ == "__main__":
    tf.keras.utils.set_random_seed(12)
    crane, memory = Crane(), LiftMemory(4000, np.random.default_rng(12))
    t0 = time.time()
    shift(crane, memory)
    print(f"shift of 250 lifts: {time.time() - t0:.2f} s")
