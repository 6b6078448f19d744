"""DDPG for the thermostats of four toy buildings on one site."""
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from keras import Sequential, layers, optimizers


class Building:
    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.t, self.temp = 0, 18 + 4 * self.rng.random(6)
        return self.obs()

    def obs(self):
        out = 8 + 6 * np.sin(2 * np.pi * self.t / 96)
        return np.concatenate([(self.temp - 21) / 5, [out / 10, np.sin(self.t / 15), np.cos(self.t / 15)]]).astype("float32")

    def step(self, u):
        out = 8 + 6 * np.sin(2 * np.pi * self.t / 96)
        self.temp += 0.05 * (out - self.temp) + 1.2 * np.clip(u, -1, 1) + 0.4
        self.t += 1
        r = -np.mean((self.temp - 21) ** 2) / 10 - 0.05 * np.sum(u ** 2)
        return self.obs(), float(r), self.t >= 192


class Memory:
    def __init__(self, rng):
        self.rng, self.items = rng, []

    def add(self, *transition):
        self.items.append(transition)

    def sample(self, n):
        s, a, r, s2, d = (np.array(c) for c in zip(*self.items))
        i = self.rng.integers(0, len(self.items), n)
        return [tf.constant(v[i], tf.float32) for v in (s, a, r, s2, d)]


def net(n_in, n_out, act=None):
    return Sequential([layers.Input((n_in,)), layers.Dense(64, activation="relu"),
                       layers.Dense(64, activation="relu"), layers.Dense(n_out, activation=act)])


rng = np.random.default_rng(3)
actor, actor_t = net(9, 6, "tanh"), net(9, 6, "tanh")
critic, critic_t = net(15, 1), net(15, 1)
actor_t.set_weights(actor.get_weights())
critic_t.set_weights(critic.get_weights())
a_opt, c_opt = optimizers.Adam(5e-4), optimizers.Adam(1e-3)
a_opt.build(actor.trainable_variables)
c_opt.build(critic.trainable_variables)


@tf.function
def policy(s):
    return actor(s)


@tf.function
def learn(s, a, r, s2, d):
    y = r[:, None] + 0.98 * (1 - d[:, None]) * critic_t(tf.concat([s2, actor_t(s2)], 1))
    with tf.GradientTape() as tape:
        c_loss = tf.reduce_mean((critic(tf.concat([s, a], 1)) - y) ** 2)
    c_opt.apply_gradients(zip(tape.gradient(c_loss, critic.trainable_variables), critic.trainable_variables))
    with tf.GradientTape() as tape:
        a_loss = -tf.reduce_mean(critic(tf.concat([s, actor(s)], 1)))
    a_opt.apply_gradients(zip(tape.gradient(a_loss, actor.trainable_variables), actor.trainable_variables))
    for t, v in zip(actor_t.variables + critic_t.variables, actor.variables + critic.variables):
        t.assign(0.995 * t + 0.005 * v)
    return c_loss


site, memory, steps = [Building(rng) for _ in range(4)], Memory(rng), 0
t0 = time.perf_counter()
for episode in range(7):
    obs, done, total = [b.reset() for b in site], False, 0.0
    while not done:
        u = policy(tf.constant(np.stack(obs))).numpy() + 0.1 * rng.normal(size=(len(site), 6))
        for k, building in enumerate(site):
            s2, r, done = building.step(u[k])
            memory.add(obs[k], u[k], r, s2, float(done))
            obs[k], total = s2, total + r
        steps += 1
        if steps > 32:
            learn(*memory.sample(128))
    print("episode %d mean return %.2f" % (episode, total / len(site)))
print("WORK", steps)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
