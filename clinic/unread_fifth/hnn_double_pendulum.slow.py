"""Hamiltonian network for the double pendulum (unit masses and lengths)."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

G = 9.81


@dataclass(frozen=True)
class Config:
    trajectories: int = 2000
    steps: int = 200
    dt: float = 0.02
    width: int = 512
    depth: int = 4
    batch: int = 8192
    iterations: int = 30000
    lr: float = 1e-3


def equations(s):
    """s: (n, 4) canonical state q1 q2 p1 p2 -> time derivative."""
    q1, q2, p1, p2 = s.T
    d = q1 - q2
    sin, cos = np.sin(d), np.cos(d)
    den = 1.0 + sin ** 2
    dq1 = (p1 - p2 * cos) / den
    dq2 = (2.0 * p2 - p1 * cos) / den
    h1 = p1 * p2 * sin / den
    h2 = (p1 ** 2 + 2.0 * p2 ** 2 - 2.0 * p1 * p2 * cos) / (2.0 * den ** 2)
    dp1 = -2.0 * G * np.sin(q1) - h1 + h2 * np.sin(2.0 * d)
    dp2 = -G * np.sin(q2) + h1 - h2 * np.sin(2.0 * d)
    return np.stack([dq1, dq2, dp1, dp2], axis=1)


def simulate(cfg, seed=0):
    rng = np.random.default_rng(seed)
    s = np.concatenate(
        [rng.uniform(-1.2, 1.2, (cfg.trajectories, 2)), rng.normal(0, 0.5, (cfg.trajectories, 2))], axis=1
    )
    states, derivs = [], []
    for _ in range(cfg.steps):
        k1 = equations(s)
        k2 = equations(s + 0.5 * cfg.dt * k1)
        k3 = equations(s + 0.5 * cfg.dt * k2)
        k4 = equations(s + cfg.dt * k3)
        states.append(s)
        derivs.append(k1)
        s = s + cfg.dt / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
    return np.concatenate(states), np.concatenate(derivs)


def mlp(width, depth, dtype):
    inp = tf.keras.Input((4,), dtype=dtype)
    h = inp
    for _ in range(depth):
        h = tf.keras.layers.Dense(width, activation="tanh", dtype=dtype)(h)
    out = tf.keras.layers.Dense(1, use_bias=False, dtype=dtype)(h)
    return tf.keras.Model(inp, out)


def make_trainer(cfg, x, dx):
    x = tf.constant(x)
    dx = tf.constant(dx)
    scale = tf.math.reduce_std(dx, axis=0)
    model = mlp(cfg.width, cfg.depth, dtype=x.dtype.name)
    opt = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(cfg.lr, cfg.iterations))

    def field(s):
        with tf.GradientTape() as tape:
            tape.watch(s)
            energy = model(s)
        dh = tape.gradient(energy, s)
        dq, dp = tf.split(dh, 2, axis=1)
        return tf.concat([dp, -dq], axis=1)

    @tf.function
    def step():
        idx = tf.random.uniform([cfg.batch], 0, tf.shape(x, out_type=tf.int64)[0], dtype=tf.int64)
        s, target = tf.gather(x, idx), tf.gather(dx, idx)
        with tf.GradientTape() as tape:
            err = (field(s) - target) / scale
            loss = tf.reduce_mean(tf.square(err))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    return model, step


def main():
    cfg = Config()
    x, dx = simulate(cfg)
    print("samples:", len(x))
    model, step = make_trainer(cfg, x, dx)
    for i in range(1, cfg.iterations + 1):
        loss = step()
        if i % 1000 == 0:
            print(f"{i:6d} {float(loss):.6f}")
    model.save("hnn_double_pendulum.keras")


if __name__ == "__main__":
    main()
