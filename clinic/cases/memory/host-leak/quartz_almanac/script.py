"""Almanac of the coming season: a mixture of four small experts on weather-station rows."""
import time

import numpy as np
import tensorflow as tf


class Affine(tf.Module):
    def __init__(self, a, b, seed):
        super().__init__()
        init = tf.random.stateless_normal([a, b], [seed, 1]) * (2.0 / a) ** 0.5
        self.w, self.b = tf.Variable(init), tf.Variable(tf.zeros([b]))

    def __call__(self, x):
        return x @ self.w + self.b


class Expert(tf.Module):
    def __init__(self, rows, width, seed):
        super().__init__()
        self.inner, self.outer = Affine(rows, width, seed), Affine(width, 1, seed + 50)

    def __call__(self, x):
        mood = tf.nn.relu(self.inner(x))
        return mood, self.outer(mood)


class Almanac(tf.Module):
    def __init__(self, rows=48, width=128, experts=4, rate=0.02):
        super().__init__()
        self.experts = [Expert(rows, width, k) for k in range(experts)]
        self.gate = Affine(rows, experts, 99)
        self.rate = rate
        self.moods = []

    @tf.function
    def _season(self, x, y):
        with tf.GradientTape() as tape:
            seen = [e(x) for e in self.experts]
            trust = tf.nn.softmax(self.gate(x))
            guess = tf.reduce_sum(trust * tf.concat([g for _, g in seen], 1), 1, keepdims=True)
            loss = tf.reduce_mean((guess - y) ** 2)
        v = self.trainable_variables
        for p, g in zip(v, tape.gradient(loss, v)):
            p.assign_sub(self.rate * g)
        return loss, [m for m, _ in seen]

    def season(self, x, y):
        loss, moods = self._season(x, y)
        self.moods.extend(moods)
        return loss

    def liveliness(self):
        """Share of hidden units in use, over the whole training."""
        return float(np.mean([tf.reduce_mean(tf.cast(m > 0, tf.float32)) for m in self.moods]))


class Polyak:
    def __init__(self, source, keep=0.995):
        self.source, self.keep = source, keep
        self.shadow = [tf.Variable(v, trainable=False) for v in source.trainable_variables]

    @tf.function
    def _blend(self, now):
        for s, v in zip(self.shadow, now):
            s.assign(self.keep * s + (1 - self.keep) * v)

    def follow(self):
        self._blend(list(self.source.trainable_variables))


def stations(n=12_800, rows=48):
    g = np.random.default_rng(61)
    x = g.normal(size=(n, rows)).astype(np.float32)
    return x, np.where(x[:, :1] > 0, x[:, 1:2], np.abs(x[:, 2:3])).astype(np.float32)


def years(almanac, mean, ds, n):
    for x, y in ds.take(n):
        loss = almanac.season(x, y)
        mean.follow()
    return float(loss)


if __name__ == "__main__":
    ds = tf.data.Dataset.from_tensor_slices(stations()).batch(128).cache().repeat().prefetch(2)
    almanac = Almanac()
    mean = Polyak(almanac)
    years(almanac, mean, ds, 5)
    SEASONS = 1000
    t = time.perf_counter()
    loss = years(almanac, mean, ds, SEASONS)
    t = time.perf_counter() - t
    print(f"loss {loss:.4f} liveliness {almanac.liveliness():.3f}")
    print("WORK", SEASONS * 128)
    print("TRAIN_SECONDS", round(t, 3))
