"""Swim race times from training logs, easy swimmers first (self-paced learning)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers


class RaceData:
    def __init__(self, n=400_000, features=24, seed=17):
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(n, features)).astype("float32")
        w = rng.normal(size=features).astype("float32")
        noise = rng.exponential(0.5, size=n).astype("float32") * rng.choice([-1, 1], n)
        self.y = (np.sin(self.x @ w * 0.3) + self.x[:, 0] * 0.2 + noise).astype("float32")

    def __len__(self):
        return len(self.y)


class SelfPacedSampler:
    """Draws from the easiest part of the swimmers; that part grows from 30 % to all."""

    def __init__(self, n, refresh, total_steps, seed=0):
        self.difficulty = np.random.default_rng(seed).uniform(0, 1, n).astype("float32")
        self.refresh = refresh
        self.total = total_steps
        self.rng = np.random.default_rng(seed + 1)
        self.candidates = np.arange(n)

    def draw(self, step, size):
        if step % self.refresh == 0:
            n = len(self.difficulty)
            limit = int(n * min(1.0, 0.3 + 0.7 * step / self.total))
            ranking = sorted(range(n), key=lambda i: self.difficulty[i])
            self.candidates = np.asarray(ranking[:limit])
        return self.rng.choice(self.candidates, size)

    def feedback(self, index, losses):
        self.difficulty[index] = 0.5 * self.difficulty[index] + 0.5 * losses


class Regressor:
    def __init__(self, features):
        self.net = keras.Sequential([
            layers.Input((features,)),
            layers.Dense(128, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(1),
        ])
        self.opt = keras.optimizers.Adam(1e-3)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            each = tf.abs(self.net(x, training=True)[:, 0] - y)
            loss = tf.reduce_mean(each)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return each


def run(steps=1800, batch=256, refresh=60):
    keras.utils.set_random_seed(17)
    data = RaceData()
    sampler = SelfPacedSampler(len(data), refresh, steps)
    model = Regressor(data.x.shape[1])
    running = []
    started = time.perf_counter()
    for step in range(steps):
        index = sampler.draw(step, batch)
        each = model.step(data.x[index], data.y[index]).numpy()
        sampler.feedback(index, each)
        running.append(each.mean())
        if (step + 1) % 300 == 0:
            print(f"{step + 1:5d} mean error {np.mean(running[-300:]):.4f}")
    elapsed = time.perf_counter() - started
    print("WORK", steps)
    print("TRAIN_SECONDS %.3f" % elapsed)


if __name__ == "__main__":
    run()
