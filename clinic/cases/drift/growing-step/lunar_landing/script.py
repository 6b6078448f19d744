"""Off-policy actor-critic for a toy lander; observations are standardised with what has been seen so far."""
import time
from collections import namedtuple

import numpy as np
import tensorflow as tf
from tensorflow.keras import Input, Model, layers, optimizers

Transition = namedtuple("Transition", "obs action reward next_obs")
OBS, ACTIONS = 8, 4


class Fleet:
    """Landers that fly side by side."""

    thrust = np.array([[0, 0], [0.06, 0.0], [-0.06, 0.0], [0, 0.14]])

    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.pos, self.vel = np.zeros((n, 2)), np.zeros((n, 2))
        self.restart(np.ones(n, bool))

    def restart(self, which):
        k = which.sum()
        self.pos[which] = np.stack([self.rng.uniform(-1, 1, k), np.full(k, 1.5)], 1)
        self.vel[which] = self.rng.normal(0, 0.1, (k, 2))

    def obs(self):
        return np.concatenate([self.pos, self.vel, self.pos ** 2, self.vel ** 2], 1).astype(np.float32)

    def step(self, a):
        self.vel = self.vel + self.thrust[a] - np.array([0.0, 0.05])
        self.pos = self.pos + 0.1 * self.vel
        landed = (self.pos[:, 1] <= 0) | (self.pos[:, 1] > 4)
        crash = (self.pos[:, 1] <= 0) & (self.vel[:, 1] < -0.5)
        reward = -np.abs(self.pos[:, 0]) - 0.2 * np.abs(self.vel[:, 1]) - 2.0 * crash
        seen = self.obs()
        self.restart(landed)
        return seen, reward.astype(np.float32), self.obs()


class Memory:
    def __init__(self):
        self.items = []

    def add(self, *t):
        self.items.append(Transition(*t))

    def moments(self):
        obs = np.array([t.obs for t in self.items])
        return obs.mean(axis=0), obs.std(axis=0) + 1e-3

    def sample(self, rng, n):
        picked = [self.items[i] for i in rng.integers(0, len(self.items), n)]
        obs, act, rew, nxt = zip(*picked)
        return np.stack(obs), np.array(act, np.int32), np.array(rew, np.float32), np.stack(nxt)


def network():
    x = Input((OBS,))
    h = layers.Dense(192, activation="relu")(x)
    h = layers.Dense(192, activation="relu")(h)
    return Model(x, [layers.Dense(ACTIONS)(h), layers.Dense(1)(h)])


net, opt = network(), optimizers.Adam(7e-4)


@tf.function
def policy(o):
    return tf.random.categorical(net(o)[0], 1)[:, 0]


@tf.function
def learn(o, a, r, o2):
    target = r + 0.97 * net(o2)[1][:, 0]
    with tf.GradientTape() as tape:
        logits, v = net(o)
        adv = tf.stop_gradient(target) - v[:, 0]
        logp = tf.nn.log_softmax(logits)
        chosen = tf.gather(logp, a, axis=1, batch_dims=1)
        entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logp) * logp, 1))
        loss = tf.reduce_mean(adv ** 2) - tf.reduce_mean(chosen * tf.stop_gradient(adv)) - 0.01 * entropy
    g = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(g, net.trainable_variables))
    return loss


def main(steps=900, landers=32, batch=128):
    rng, fleet, memory = np.random.default_rng(0), Fleet(landers, 0), Memory()
    o, total = fleet.obs(), 0.0
    for row in o:
        memory.add(row, 0, 0.0, row)
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        mean, std = memory.moments()
        a = policy((o - mean) / std).numpy()
        o2, r, fresh = fleet.step(a)
        for t in zip(o, a, r, o2):
            memory.add(*t)
        total += r.mean()
        bo, ba, br, bo2 = memory.sample(rng, batch)
        loss = learn((bo - mean) / std, ba, br, (bo2 - mean) / std)
        o = fresh
        if step % 300 == 0:
            print(f"{step}: mean reward {total / step:.3f} loss {float(loss):.3f} memory {len(memory.items)}")
    print("WORK", steps)
    print("TRAIN_SECONDS", time.perf_counter() - begin)


main()
