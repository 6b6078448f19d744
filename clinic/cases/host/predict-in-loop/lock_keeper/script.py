"""Policy gradient for a canal lock: open or shut the sluice so that the pond keeps its level."""
import time

import numpy as np
import tensorflow as tf


class Pond:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.level, self.t = self.rng.normal(0, .5), 0
        return self.view()

    def view(self):
        return np.array([self.level, np.sin(self.t / 5), np.cos(self.t / 5)], "float32")

    def move(self, opened):
        self.level += .15 * np.sin(self.t / 5) + (-.1 if opened else .1) + self.rng.normal(0, .02)
        self.t += 1
        return self.view(), -abs(self.level), self.t >= 3


class Keeper:
    def __init__(self, rng):
        self.rng = rng
        self.policy = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(24, activation="tanh"),
                                           tf.keras.layers.Dense(2, activation="softmax")])
        self.policy.compile(tf.keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")

    def chances(self, view):
        return self.policy.predict(view[None], verbose=0)[0]

    def choose(self, view):
        p = self.chances(view)
        return int(self.rng.random() < p[1])

    def episode(self, pond):
        views, acts, gains = [], [], []
        view, done = pond.reset(), False
        while not done:
            a = self.choose(view)
            views.append(view)
            acts.append(a)
            view, gain, done = pond.move(a)
            gains.append(gain)
        togo = np.cumsum(gains[::-1])[::-1].astype("float32")
        return np.stack(views), np.array(acts), togo - togo.mean()

    def study(self, pond):
        x, a, w = self.episode(pond)
        return self.policy.train_on_batch(x, a, sample_weight=w)


def main(episodes=72):
    tf.keras.utils.set_random_seed(61)
    rng = np.random.default_rng(61)
    pond, keeper = Pond(rng), Keeper(rng)
    began = time.time()
    for e in range(episodes):
        keeper.study(pond)
    print(f"{episodes} episodes in {time.time() - began:.2f} s")


if __name__ == "__main__":
    main()
