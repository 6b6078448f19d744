"""Hamiltonian network for a chain of anharmonic oscillators."""
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf


@dataclass
class Settings:
    sites: int = 32
    trajectories: int = 1500
    frames: int = 200
    dt: float = 0.02
    batch: int = 4096
    steps: int = 12000
    report: int = 1000
    lr: float = 5e-4


def force(q, k4=0.25):
    left, right = np.roll(q, 1, -1), np.roll(q, -1, -1)
    return left + right - 2.0 * q - k4 * q ** 3


def integrate(cfg, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(cfg.trajectories, cfg.sites)).astype(np.float32)
    p = rng.normal(size=(cfg.trajectories, cfg.sites)).astype(np.float32)
    out = []
    for _ in range(cfg.frames):
        p = p + 0.5 * cfg.dt * force(q)
        q = q + cfg.dt * p
        p = p + 0.5 * cfg.dt * force(q)
        out.append(np.stack([q, p, p, force(q)], axis=1))
    return np.concatenate(out).astype(np.float32)


class PhaseSpace:
    """Samples of (q, p) with their time derivatives."""

    def __init__(self, cfg):
        table = integrate(cfg)
        self.state = tf.constant(table[:, :2].reshape(len(table), -1))
        self.deriv = tf.constant(table[:, 2:].reshape(len(table), -1))

    def __len__(self):
        return len(self.state)

    def minibatch(self, n):
        pick = tf.random.uniform((n,), 0, len(self), dtype=tf.int32)
        return tuple(tf.gather(a, pick) for a in (self.state, self.deriv))


class HNN(keras.Model):
    def __init__(self, sites, width=512, depth=3):
        super().__init__()
        self.sites = sites
        self.energy = keras.Sequential(
            [keras.layers.Input((2 * sites,))]
            + [keras.layers.Dense(width, activation="softplus") for _ in range(depth)]
            + [keras.layers.Dense(1, use_bias=False)])

    def call(self, state):
        with tf.GradientTape() as tape:
            tape.watch(state)
            h = tf.reduce_sum(self.energy(state))
        dh = tape.gradient(h, state)
        return tf.concat([dh[:, self.sites:], -dh[:, :self.sites]], -1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.space = PhaseSpace(cfg)
        self.net = HNN(cfg.sites)
        self.opt = keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(cfg.lr, cfg.steps))

    @tf.function
    def update(self):
        state, deriv = self.space.minibatch(self.cfg.batch)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(state) - deriv))
        weights = self.net.energy.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def train(self):
        print(f"{len(self.space)} phase-space points")
        for it in range(1, self.cfg.steps + 1):
            loss = self.update()
            if it % self.cfg.report == 0:
                print(f"{it:6d}  mse {float(loss):.3e}")
        self.net.energy.save_weights("hnn.weights.h5")


if __name__ == "__main__":
    keras.utils.set_random_seed(5)
    Trainer(Settings()).train()
