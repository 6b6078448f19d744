"""DDPG on 512 simulated two-link reachers, everything in TensorFlow."""
import argparse

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

OBS, ACT = 10, 2


class Reachers:
    def __init__(self, n, dt=0.05):
        self.n, self.dt = n, dt
        self.q = tf.Variable(tf.zeros((n, 2)))
        self.qd = tf.Variable(tf.zeros((n, 2)))
        self.goal = tf.Variable(tf.zeros((n, 2)))
        self.reset()

    def reset(self):
        self.q.assign(tf.random.uniform((self.n, 2), -np.pi, np.pi))
        self.qd.assign(tf.zeros((self.n, 2)))
        r = tf.random.uniform((self.n, 1), 0.3, 1.8)
        a = tf.random.uniform((self.n, 1), -np.pi, np.pi)
        self.goal.assign(tf.concat([r * tf.cos(a), r * tf.sin(a)], 1))

    def tip(self):
        a, b = self.q[:, :1], self.q[:, :1] + self.q[:, 1:]
        return tf.concat([tf.cos(a) + tf.cos(b), tf.sin(a) + tf.sin(b)], 1)

    def observe(self):
        return tf.concat([tf.cos(self.q), tf.sin(self.q), self.qd, self.goal, self.goal - self.tip()], 1)

    def step(self, torque):
        self.qd.assign(0.97 * self.qd + self.dt * 6.0 * torque)
        self.q.assign_add(self.dt * self.qd)
        dist = tf.norm(self.goal - self.tip() + 1e-6, axis=1, keepdims=True)
        return self.observe(), -dist - 0.01 * tf.reduce_sum(torque ** 2, 1, keepdims=True)


class Replay:
    def __init__(self, n, blocks=2000):
        self.n, self.capacity = n, n * blocks
        self.obs = tf.Variable(tf.zeros((self.capacity, OBS)), trainable=False)
        self.act = tf.Variable(tf.zeros((self.capacity, ACT)), trainable=False)
        self.rew = tf.Variable(tf.zeros((self.capacity, 1)), trainable=False)
        self.nxt = tf.Variable(tf.zeros((self.capacity, OBS)), trainable=False)
        self.seen = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function
    def add(self, o, a, r, n):
        rows = tf.math.floormod(self.seen + tf.range(self.n, dtype=tf.int64), self.capacity)[:, tf.newaxis]
        self.obs.scatter_nd_update(rows, o)
        self.act.scatter_nd_update(rows, a)
        self.rew.scatter_nd_update(rows, r)
        self.nxt.scatter_nd_update(rows, n)
        self.seen.assign_add(self.n)

    def size(self):
        return tf.minimum(self.seen, self.capacity)


def mlp(n_in, n_out, act=None):
    return tf.keras.Sequential([
        layers.Input((n_in,)), layers.Dense(256, "relu"), layers.Dense(256, "relu"), layers.Dense(n_out, act)])


class DDPG:
    def __init__(self, env, batch=2048, gamma=0.98, tau=0.005):
        self.env, self.batch, self.gamma, self.tau = env, batch, gamma, tau
        self.pi, self.pi_t = mlp(OBS, ACT, "tanh"), mlp(OBS, ACT, "tanh")
        self.qf, self.qf_t = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)
        self.pi_t.set_weights(self.pi.get_weights())
        self.qf_t.set_weights(self.qf.get_weights())
        self.pi_opt = tf.keras.optimizers.Adam(3e-4)
        self.q_opt = tf.keras.optimizers.Adam(1e-3)
        self.reward = tf.keras.metrics.Mean()

    @tf.function
    def act(self):
        o = self.env.observe()
        a = tf.clip_by_value(self.pi(o) + 0.15 * tf.random.normal((self.env.n, ACT)), -1.0, 1.0)
        n, r = self.env.step(a)
        self.reward.update_state(r)
        return o, a, r, n

    @tf.function
    def learn(self, memory):
        idx = tf.random.uniform([self.batch], 0, memory.size(), tf.int64)
        o, a, r, n = [tf.gather(t, idx) for t in (memory.obs, memory.act, memory.rew, memory.nxt)]
        target = r + self.gamma * self.qf_t(tf.concat([n, self.pi_t(n)], 1))
        with tf.GradientTape() as tape:
            q_loss = tf.reduce_mean(tf.square(self.qf(tf.concat([o, a], 1)) - target))
        g = tape.gradient(q_loss, self.qf.trainable_variables)
        self.q_opt.apply_gradients(zip(g, self.qf.trainable_variables))
        with tf.GradientTape() as tape:
            p_loss = -tf.reduce_mean(self.qf(tf.concat([o, self.pi(o)], 1)))
        g = tape.gradient(p_loss, self.pi.trainable_variables)
        self.pi_opt.apply_gradients(zip(g, self.pi.trainable_variables))
        for net, slow in ((self.pi, self.pi_t), (self.qf, self.qf_t)):
            for w, s in zip(net.trainable_variables, slow.trainable_variables):
                s.assign(s + self.tau * (w - s))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--envs", type=int, default=512)
    p.add_argument("--steps", type=int, default=40000)
    p.add_argument("--horizon", type=int, default=100)
    a = p.parse_args()
    env = Reachers(a.envs)
    agent, memory = DDPG(env), Replay(a.envs)
    for t in range(1, a.steps + 1):
        memory.add(*agent.act())
        if t > 20:
            agent.learn(memory)
        if t % a.horizon == 0:
            env.reset()
        if t % 1000 == 0:
            print(t, "mean reward %.4f" % float(agent.reward.result()))
            agent.reward.reset_state()
    agent.pi.save("reacher_pi.keras")


if __name__ == "__main__":
    main()
