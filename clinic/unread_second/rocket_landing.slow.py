"""Tune a landing controller by differentiating through the simulator."""
from dataclasses import dataclass

import tensorflow as tf


@dataclass
class Sim:
    dt: float = 0.02
    horizon: int = 500
    gravity: float = 9.81
    thrust: float = 25.0
    rollouts: int = 256
    iterations: int = 20
    lr: float = 3e-3


def make_policy() -> tf.keras.Model:
    return tf.keras.Sequential([
        tf.keras.Input((6,)),
        tf.keras.layers.Dense(32, activation="tanh"),
        tf.keras.layers.Dense(32, activation="tanh"),
        tf.keras.layers.Dense(2, activation="tanh"),
    ])


def dynamics(state: tf.Tensor, action: tf.Tensor, sim: Sim) -> tf.Tensor:
    x, z, vx, vz, th, om = tf.unstack(state, axis=1)
    throttle = 0.5 * (action[:, 0] + 1.0) * sim.thrust
    gimbal = 0.3 * action[:, 1]
    ax = throttle * tf.sin(th + gimbal) - 0.05 * vx
    az = throttle * tf.cos(th + gimbal) - sim.gravity - 0.05 * vz
    om = om - sim.dt * throttle * tf.sin(gimbal) * 0.4
    vx, vz = vx + sim.dt * ax, vz + sim.dt * az
    return tf.stack([x + sim.dt * vx, z + sim.dt * vz, vx, vz, th + sim.dt * om, om], axis=1)


def initial_state(n: int) -> tf.Tensor:
    mean = tf.constant([0.0, 40.0, 0.0, -5.0, 0.0, 0.0])
    std = tf.constant([8.0, 4.0, 1.0, 1.0, 0.1, 0.05])
    return mean + std * tf.random.normal((n, 6))


class LandingProblem:
    def __init__(self, sim: Sim):
        self.sim = sim
        self.policy = make_policy()
        self.opt = tf.keras.optimizers.Adam(sim.lr, global_clipnorm=1.0)
        self.opt.build(self.policy.trainable_variables)

    def rollout(self, state):
        cost = tf.zeros((self.sim.rollouts,))
        for _ in range(self.sim.horizon):
            action = self.policy(state / 10.0)
            state = dynamics(state, action, self.sim)
            cost += 1e-3 * tf.reduce_sum(tf.square(action), axis=1)
        cost += tf.reduce_sum(tf.square(state) * [1.0, 1.0, 0.5, 0.5, 5.0, 1.0], axis=1)
        return tf.reduce_mean(cost)

    @tf.function
    def update(self):
        start = initial_state(self.sim.rollouts)
        with tf.GradientTape() as tape:
            cost = self.rollout(start)
        grads = tape.gradient(cost, self.policy.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.policy.trainable_variables))
        return cost


def main() -> None:
    sim = Sim()
    problem = LandingProblem(sim)
    for it in range(sim.iterations):
        cost = problem.update()
        if it % 5 == 4:
            print(f"iter {it + 1:3d}  cost {float(cost):10.3f}")


if __name__ == "__main__":
    main()
