"""Advantage actor-critic on a vectorised point-mass task."""
import argparse
import random

import keras
import numpy as np
import tensorflow as tf


def reproducible(seed):
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)
    tf.config.run_functions_eagerly(True)


class PointMass:
    def __init__(self, n):
        self.n = n
        self.reset()

    def reset(self):
        self.pos = np.random.uniform(-1, 1, (self.n, 2)).astype("float32")
        self.vel = np.zeros((self.n, 2), "float32")
        return self.observe()

    def observe(self):
        return np.concatenate([self.pos, self.vel], 1)

    def step(self, action):
        push = np.stack([(action % 3) - 1, (action // 3) - 1], 1)
        self.vel = 0.9 * self.vel + 0.05 * push.astype("float32")
        self.pos = np.clip(self.pos + self.vel, -2, 2)
        return self.observe(), -np.square(self.pos).sum(1).astype("float32")


class Agent:
    def __init__(self, hidden=64, lr=7e-4):
        inp = keras.Input((4,))
        h = keras.layers.Dense(hidden, activation="tanh")(inp)
        h = keras.layers.Dense(hidden, activation="tanh")(h)
        h = keras.layers.Dense(hidden, activation="tanh")(h)
        self.net = keras.Model(inp, [keras.layers.Dense(9)(h), keras.layers.Dense(1)(h)])
        self.opt = keras.optimizers.RMSprop(lr, clipnorm=0.5)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def act(self, obs):
        logits, _ = self.net(obs)
        return tf.random.categorical(logits, 1)[:, 0]

    @tf.function
    def learn(self, obs, actions, returns):
        with tf.GradientTape() as tape:
            logits, value = self.net(obs, training=True)
            adv = returns - value[:, 0]
            logp = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
            policy = -tf.reduce_mean(logp * tf.stop_gradient(adv))
            probs = tf.nn.softmax(logits)
            entropy = -tf.reduce_mean(tf.reduce_sum(probs * tf.math.log(probs + 1e-8), 1))
            loss = policy + 0.5 * tf.reduce_mean(adv**2) - 0.01 * entropy
        w = self.net.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, w), w))
        return loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=220)
    ap.add_argument("--seed", type=int, default=7)
    a = ap.parse_args()
    reproducible(a.seed)
    env, agent = PointMass(16), Agent()
    obs, total = env.reset(), tf.constant(0.0)
    for u in range(a.updates):
        seen, done, rewards = [], [], []
        for _ in range(4):
            act = agent.act(obs).numpy()
            seen.append(obs)
            done.append(act)
            obs, r = env.step(act)
            rewards.append(r)
        returns = np.cumsum(np.array(rewards)[::-1], 0)[::-1]
        total = agent.learn(np.concatenate(seen), np.concatenate(done), np.concatenate(returns))
        if u % 40 == 39:
            obs = env.reset()
    print("last loss", float(total))


if __name__ == "__main__":
    main()
