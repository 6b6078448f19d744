"""Centralised critic for a drone swarm: every team's agents attend to each other, teams differ in their adjacency."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

TEAMS, AGENTS, OBS, WIDTH = 96, 10, 14, 32


def episodes(n):
    rng = np.random.default_rng(19)
    obs = rng.normal(size=(n, AGENTS, OBS)).astype("float32")
    near = (np.linalg.norm(obs[:, :, None, :2] - obs[:, None, :, :2], axis=-1) < 1.5).astype("float32")
    value = (obs[..., 2:5].sum(-1) * near.sum(-1)).mean(-1).astype("float32")
    return obs, near, value / value.std()


class TeamMixer(keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (keras.layers.Dense(width) for _ in range(3))
        self.scale = width ** -0.5

    def build(self, shape):
        for d in (self.q, self.k, self.v):
            d.build(shape[0])

    def mix(self, team):
        q, k, v, near = team
        score = tf.matmul(q, k, transpose_b=True) * self.scale + (near - 1.0) * 1e4
        return tf.matmul(tf.nn.softmax(score), v)

    def call(self, inputs):
        h, near = inputs
        return tf.map_fn(self.mix, (self.q(h), self.k(h), self.v(h), near), fn_output_signature=tf.float32)


class Critic(keras.Model):
    def __init__(self):
        super().__init__()
        self.lift = keras.layers.Dense(WIDTH, activation="relu")
        self.mixers = [TeamMixer(WIDTH) for _ in range(2)]
        self.value = keras.layers.Dense(1)

    def call(self, inputs):
        obs, near = inputs
        h = self.lift(obs)
        for m in self.mixers:
            h = h + tf.ensure_shape(m([h, near]), (None, AGENTS, WIDTH))
        return tf.reduce_mean(self.value(h), axis=(1, 2))


def main():
    obs, near, value = episodes(TEAMS * 50)
    critic = Critic()
    critic([obs[:2], near[:2]])
    critic.compile(keras.optimizers.Adam(1e-3), "mse")
    t0 = time.perf_counter()
    critic.fit((obs, near), value, batch_size=TEAMS, epochs=3, verbose=2)
    print(f"{time.perf_counter() - t0:.1f}s")


if __name__ == "__main__":
    main()
