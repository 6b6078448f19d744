#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""
Q-learning for a gantry crane: move the trolley to the target, keep the load quiet.
(port of the 2018 lab code; still the session API, it works, don't touch)
"""
from __future__ import print_function

import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

FORCES = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])
OBS = 6
HIDDEN = 96
CRANES = 32          # simulated side by side
ITERATIONS = 220
UPDATES = 4          # gradient steps per iteration
BATCH = 256
GAMMA = 0.97
POLYAK = 0.01


class Cranes(object):
    """Trolley + pendulum, small angles, semi-implicit Euler."""

    def __init__(self, n, seed):
        self.rng = np.random.RandomState(seed)
        self.n = n
        self.s = np.zeros((n, 4))
        self.goal = np.zeros(n)
        self.rope = np.ones(n)
        self.reset(np.ones(n, bool))

    def reset(self, mask):
        k = int(mask.sum())
        self.s[mask] = self.rng.uniform(-0.3, 0.3, (k, 4))
        self.goal[mask] = self.rng.uniform(-2.0, 2.0, k)
        self.rope[mask] = self.rng.uniform(0.8, 1.6, k)

    def obs(self):
        x, v, th, om = self.s.T
        return np.stack([x - self.goal, v, th, om, self.rope, self.goal], axis=1).astype(np.float32)

    def step(self, a):
        f = FORCES[a]
        for _ in range(4):
            x, v, th, om = self.s.T
            acc = f / 4.0 - 0.3 * v
            alpha = -(9.81 * th + acc) / self.rope - 0.05 * om
            v = v + 0.02 * acc
            om = om + 0.02 * alpha
            self.s = np.stack([x + 0.02 * v, v, th + 0.02 * om, om], axis=1)
        miss = np.abs(self.s[:, 0] - self.goal)
        reward = -0.5 * miss - 2.0 * self.s[:, 2] ** 2 - 0.002 * f ** 2
        lost = (np.abs(self.s[:, 0]) > 4.0) | (np.abs(self.s[:, 2]) > 1.0)
        self.reset(lost)
        return reward.astype(np.float32), lost.astype(np.float32)


class Memory(object):
    def __init__(self, size):
        self.o = np.zeros((size, OBS), np.float32)
        self.o2 = np.zeros((size, OBS), np.float32)
        self.a = np.zeros(size, np.int32)
        self.r = np.zeros(size, np.float32)
        self.d = np.zeros(size, np.float32)
        self.size, self.at, self.full = size, 0, 0

    def push(self, o, a, r, o2, d):
        idx = (self.at + np.arange(len(a))) % self.size
        self.o[idx], self.a[idx], self.r[idx], self.o2[idx], self.d[idx] = o, a, r, o2, d
        self.at = (self.at + len(a)) % self.size
        self.full = min(self.full + len(a), self.size)

    def draw(self, rng, n):
        i = rng.randint(0, self.full, n)
        return self.o[i], self.a[i], self.r[i], self.o2[i], self.d[i]


def q_net(obs, scope):
    with tf.variable_scope(scope):
        w1 = tf.get_variable("w1", [OBS, HIDDEN], initializer=tf.random_normal_initializer(stddev=0.4))
        b1 = tf.get_variable("b1", [HIDDEN], initializer=tf.zeros_initializer())
        w2 = tf.get_variable("w2", [HIDDEN, len(FORCES)], initializer=tf.random_normal_initializer(stddev=0.1))
        b2 = tf.get_variable("b2", [len(FORCES)], initializer=tf.zeros_initializer())
        return tf.matmul(tf.nn.relu(tf.matmul(obs, w1) + b1), w2) + b2


def follow(online, target, rate):
    """Polyak averaging of the target network."""
    return [t.assign((1.0 - rate) * t + rate * w) for w, t in zip(online, target)]


tf.set_random_seed(3)
rng = np.random.RandomState(3)

o_ph = tf.placeholder(tf.float32, [None, OBS])
a_ph = tf.placeholder(tf.int32, [None])
r_ph = tf.placeholder(tf.float32, [None])
o2_ph = tf.placeholder(tf.float32, [None, OBS])
d_ph = tf.placeholder(tf.float32, [None])

q = q_net(o_ph, "online")
q2 = q_net(o2_ph, "target")
online = tf.trainable_variables("online")
target = tf.trainable_variables("target")
backup = tf.stop_gradient(r_ph + GAMMA * (1.0 - d_ph) * tf.reduce_max(q2, axis=1))
chosen = tf.reduce_sum(q * tf.one_hot(a_ph, len(FORCES)), axis=1)
td = tf.reduce_mean(tf.square(chosen - backup))
train = tf.train.AdamOptimizer(1e-3).minimize(td, var_list=online)
init = tf.global_variables_initializer()

yard = Cranes(CRANES, 3)
memory = Memory(20000)

with tf.Session() as sess:
    sess.run(init)
    for w, t in zip(online, target):
        t.load(sess.run(w), sess)

    start = time.time()
    rewards = []
    obs = yard.obs()
    for it in range(ITERATIONS):
        eps = max(0.05, 1.0 - it / 120.0)
        act = np.argmax(sess.run(q, {o_ph: obs}), axis=1)
        dice = rng.rand(CRANES) < eps
        act[dice] = rng.randint(0, len(FORCES), int(dice.sum()))
        rew, done = yard.step(act)
        nxt = yard.obs()
        memory.push(obs, act, rew, nxt, done)
        obs = nxt
        rewards.append(rew.mean())

        for _ in range(UPDATES):
            o, a, r, o2, d = memory.draw(rng, BATCH)
            loss, _ = sess.run([td, train], {o_ph: o, a_ph: a, r_ph: r, o2_ph: o2, d_ph: d})
        sess.run(follow(online, target, POLYAK))

        if (it + 1) % 20 == 0:
            print("it %4d  reward %.3f  td %.4f" % (it + 1, np.mean(rewards[-20:]), loss))
    seconds = time.time() - start

print("TRAIN_SECONDS %.2f" % seconds)
