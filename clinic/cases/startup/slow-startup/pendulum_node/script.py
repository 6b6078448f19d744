"""Neural ODE for a damped double pendulum: fit the vector field through a fixed-step solver."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Setup:
    batch: int = 64
    horizon: int = 45
    dt: float = 0.04
    updates: int = 80
    width: int = 48


cfg = Setup()


def observed(cfg, n=1024, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.normal(0, 0.6, (n, 4)).astype("float32")
    start = y.copy()
    for tick in range(cfg.horizon):
        a, b, da, db = y.T
        dy = np.stack([da, db, -2 * np.sin(a) + np.sin(b) - 0.1 * da,
                       2 * np.sin(a) - 2 * np.sin(b) - 0.1 * db], 1)
        y = y + cfg.dt * dy
    return start, y.astype("float32")


class Field(tf.Module):
    def __init__(self, width):
        g = tf.random.Generator.from_seed(0)
        self.w1 = tf.Variable(g.normal((4, width)) * 0.4)
        self.b1 = tf.Variable(tf.zeros(width))
        self.w2 = tf.Variable(g.normal((width, width)) * 0.12)
        self.b2 = tf.Variable(tf.zeros(width))
        self.w3 = tf.Variable(g.normal((width, 4)) * 0.05)

    def __call__(self, y):
        h = tf.tanh(y @ self.w1 + self.b1)
        h = tf.tanh(h @ self.w2 + self.b2)
        return h @ self.w3


field = Field(cfg.width)
opt = tf.keras.optimizers.Adam(2e-3)


def solve(y):
    for _ in range(cfg.horizon):
        k1 = field(y)
        k2 = field(y + 0.5 * cfg.dt * k1)
        k3 = field(y + 0.5 * cfg.dt * k2)
        k4 = field(y + cfg.dt * k3)
        y = y + cfg.dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


@tf.function
def update(start, end):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(solve(start) - end))
    grads = tape.gradient(loss, field.trainable_variables)
    grads, _ = tf.clip_by_global_norm(grads, 1.0)
    opt.apply_gradients(zip(grads, field.trainable_variables))
    return loss


start, end = observed(cfg)
data = tf.data.Dataset.from_tensor_slices((start, end)).shuffle(1024).repeat().batch(cfg.batch).prefetch(2)
for i, (a, b) in enumerate(data.take(cfg.updates)):
    loss = update(a, b)
    if i % 20 == 19:
        print(i + 1, float(loss))
