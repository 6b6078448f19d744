"""Training a hover controller for a planar quadrotor by differentiating through its flight."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class Config:
    horizon: int = 40
    dt: float = 0.02
    batch: int = 2048
    updates: int = 50
    hidden: int = 64
    lr: float = 2e-3
    seed: int = 11


class Quadrotor:
    """state: x, z, theta, vx, vz, omega; input: two rotor thrusts in [0, 1]."""
    arm, inertia, drag, gravity, max_thrust = 0.2, 0.03, 0.1, 9.81, 12.0

    def __init__(self, dt):
        self.dt = dt

    def step(self, state, thrust, mass):
        x, z, th, vx, vz, om = tf.unstack(state, axis=-1)
        left, right = tf.unstack(thrust * self.max_thrust, axis=-1)
        lift = (left + right) / mass
        ax = -lift * tf.sin(th) - self.drag * vx
        az = lift * tf.cos(th) - self.gravity - self.drag * vz
        alpha = self.arm * (right - left) / self.inertia - 0.5 * om
        vx, vz, om = vx + self.dt * ax, vz + self.dt * az, om + self.dt * alpha
        return tf.stack([x + self.dt * vx, z + self.dt * vz, th + self.dt * om, vx, vz, om], axis=-1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.plant = Quadrotor(cfg.dt)
        self.policy = keras.Sequential([
            keras.Input((6,)),
            keras.layers.Dense(cfg.hidden, activation="tanh"),
            keras.layers.Dense(cfg.hidden, activation="tanh"),
            keras.layers.Dense(2, activation="sigmoid"),
        ])
        self.opt = keras.optimizers.Adam(cfg.lr)
        self.weights = tf.constant([4.0, 4.0, 1.0, 0.2, 0.2, 0.05])

    def sample(self, rng):
        state = rng.normal(size=(self.cfg.batch, 6)) * [0.8, 0.8, 0.3, 0.4, 0.4, 0.2]
        mass = rng.uniform(0.7, 1.1, self.cfg.batch)
        return tf.constant(state, tf.float32), tf.constant(mass, tf.float32)

    def fly(self, state, mass):
        cost = tf.constant(0.0)
        for t in range(self.cfg.horizon):
            thrust = self.policy(state)
            state = self.plant.step(state, thrust, mass)
            cost += tf.reduce_mean(tf.reduce_sum(self.weights * tf.square(state), axis=-1))
            cost += 0.01 * tf.reduce_mean(tf.square(thrust))
        return cost / self.cfg.horizon

    @tf.function
    def update(self, state, mass):
        with tf.GradientTape() as tape:
            cost = self.fly(state, mass)
        variables = self.policy.trainable_variables
        grads, norm = tf.clip_by_global_norm(tape.gradient(cost, variables), 1.0)
        self.opt.apply_gradients(zip(grads, variables))
        return cost, norm

    def run(self):
        rng = np.random.default_rng(self.cfg.seed)
        costs = []
        for i in range(self.cfg.updates):
            cost, norm = self.update(*self.sample(rng))
            costs.append(float(cost))
            if i % 10 == 9:
                print(f"update {i:3d}  cost {costs[-1]:8.3f}  |g| {float(norm):.2f}", flush=True)
        return costs


if __name__ == "__main__":
    config = Config()
    keras.utils.set_random_seed(config.seed)
    trainer = Trainer(config)
    began = time.time()
    trainer.run()
    took = time.time() - began
    print("WORK", config.updates)
    print("TRAIN_SECONDS", took)
