"""DDPG for hovering a planar drone (two rotors)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

OBS, ACT = 6, 2


class PlanarDrone:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.normal(0, 0.3, OBS).astype(np.float32)
        self.age = 0
        return self.state

    def step(self, action):
        x, z, phi, vx, vz, w = self.state
        thrust, turn = action.sum() + 1.0, action[0] - action[1]
        vx, vz, w = vx - 0.05 * thrust * np.sin(phi), vz + 0.05 * (thrust * np.cos(phi) - 1), w + 0.1 * turn
        self.state = np.clip(np.array([x + 0.05 * vx, z + 0.05 * vz, phi + 0.05 * w, vx, vz, w],
                                      np.float32), -3, 3)
        self.age += 1
        return self.state, -float(np.sum(self.state[:3] ** 2)), self.age >= 100


def actor_net():
    s = keras.Input((OBS,))
    h = keras.layers.Dense(256, activation="relu")(s)
    h = keras.layers.Dense(192, activation="relu")(h)
    return keras.Model(s, keras.layers.Dense(ACT, activation="tanh")(h))


def critic_net():
    s, a = keras.Input((OBS,)), keras.Input((ACT,))
    h = keras.layers.Dense(256, activation="relu")(keras.layers.Concatenate()([s, a]))
    h = keras.layers.Dense(192, activation="relu")(h)
    return keras.Model([s, a], keras.layers.Dense(1)(h))


class DDPG:
    def __init__(self, capacity=20000, tau=0.005):
        self.tau = tau
        self.actor, self.actor_t = actor_net(), actor_net()
        self.critic, self.critic_t = critic_net(), critic_net()
        self.actor_t.set_weights(self.actor.get_weights())
        self.critic_t.set_weights(self.critic.get_weights())
        self.opt_a, self.opt_c = keras.optimizers.Adam(3e-4), keras.optimizers.Adam(1e-3)
        self.buf = np.zeros((capacity, 2 * OBS + ACT + 1), np.float32)
        self.size = 0

    def remember(self, s, a, r, s2):
        self.buf[self.size % len(self.buf)] = np.concatenate([s, a, [r], s2])
        self.size += 1

    @tf.function
    def act(self, s):
        return self.actor(s[None])[0]

    @tf.function
    def learn(self, rows):
        s, a, r, s2 = tf.split(rows, [OBS, ACT, 1, OBS], axis=1)
        goal = r + 0.98 * self.critic_t([s2, self.actor_t(s2)])
        with tf.GradientTape() as tape:
            loss_c = tf.reduce_mean((goal - self.critic([s, a])) ** 2)
        g = tape.gradient(loss_c, self.critic.trainable_variables)
        self.opt_c.apply_gradients(zip(g, self.critic.trainable_variables))
        with tf.GradientTape() as tape:
            loss_a = -tf.reduce_mean(self.critic([s, self.actor(s)]))
        g = tape.gradient(loss_a, self.actor.trainable_variables)
        self.opt_a.apply_gradients(zip(g, self.actor.trainable_variables))
        return loss_c

    def soft_update(self, online, target):
        mixed = []
        for w, wt in zip(online.get_weights(), target.get_weights()):
            mixed.append(self.tau * w + (1 - self.tau) * wt)
        target.set_weights(mixed)


def main(total=1000, batch=64):
    env, agent, rng = PlanarDrone(0), DDPG(), np.random.default_rng(1)
    s = env.reset()
    for _ in range(600):
        a = rng.uniform(-1, 1, ACT).astype(np.float32)
        s2, r, done = env.step(a)
        agent.remember(s, a, r, s2)
        s = env.reset() if done else s2
    start, score = time.perf_counter(), 0.0
    for t in range(total):
        a = np.clip(agent.act(s).numpy() + rng.normal(0, 0.1, ACT), -1, 1).astype(np.float32)
        s2, r, done = env.step(a)
        agent.remember(s, a, r, s2)
        score += r
        agent.learn(agent.buf[rng.integers(0, min(agent.size, len(agent.buf)), batch)])
        agent.soft_update(agent.actor, agent.actor_t)
        agent.soft_update(agent.critic, agent.critic_t)
        if done:
            print(f"t={t + 1} return {score:.2f}")
            score = 0.0
        s = env.reset() if done else s2
    print("WORK", total)
    print("TRAIN_SECONDS", time.perf_counter() - start)


main()
