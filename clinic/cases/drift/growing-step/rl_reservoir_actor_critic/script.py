"""Advantage actor-critic on a vectorised toy of water reservoir control."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

OBS_DIM, N_ACTIONS = 64, 5
N_ENVS, HORIZON = 32, 8
ITERATIONS = 380
GAMMA, LAMBDA = 0.98, 0.95


class ReservoirEnvs:
    """32 reservoirs, each with inflow forecasts and levels of neighbours in its observation."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.mix = self.rng.normal(0, 0.1, (OBS_DIM, OBS_DIM)).astype("float32")
        self.state = self.rng.normal(3, 2, (N_ENVS, OBS_DIM)).astype("float32")

    def observe(self):
        return self.state.copy()

    def step(self, actions):
        release = (actions - 2).astype("float32")
        inflow = self.rng.normal(0, 0.5, self.state.shape).astype("float32")
        self.state = 0.95 * self.state + np.tanh(self.state @ self.mix) + inflow
        self.state[:, 0] -= release
        reward = -np.abs(self.state[:, 0] - 3.0) - 0.1 * np.abs(release)
        return self.observe(), reward.astype("float32")


class ObsNormalizer:
    def __init__(self):
        self.history = []
        self.mean = np.zeros(OBS_DIM, "float32")
        self.std = np.ones(OBS_DIM, "float32")

    def update(self, obs):
        self.history.append(obs)
        everything = np.concatenate(self.history, axis=0)
        self.mean = everything.mean(axis=0)
        self.std = everything.std(axis=0) + 1e-6

    def __call__(self, obs):
        return np.clip((obs - self.mean) / self.std, -5.0, 5.0)


class ActorCritic(keras.Model):
    def __init__(self):
        super().__init__()
        self.trunk = keras.Sequential([layers.Dense(128, activation="tanh"), layers.Dense(128, activation="tanh")])
        self.policy = layers.Dense(N_ACTIONS)
        self.value = layers.Dense(1)

    def call(self, obs):
        z = self.trunk(obs)
        return self.policy(z), self.value(z)[:, 0]


class Agent:
    def __init__(self):
        self.net = ActorCritic()
        self.net(tf.zeros([1, OBS_DIM]))
        self.opt = keras.optimizers.Adam(3e-4, global_clipnorm=0.5)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def act(self, obs):
        logits, value = self.net(obs)
        return tf.random.categorical(logits, 1)[:, 0], value

    @tf.function
    def learn(self, obs, actions, advantages, returns):
        with tf.GradientTape() as tape:
            logits, value = self.net(obs)
            nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
            probs = tf.nn.softmax(logits)
            entropy = -tf.reduce_sum(probs * tf.math.log(probs + 1e-8), axis=1)
            loss = tf.reduce_mean(nll * advantages + 0.5 * tf.square(returns - value) - 0.01 * entropy)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def gae(rewards, values, last_value):
    adv, running = np.zeros_like(rewards), 0.0
    following = last_value
    for t in reversed(range(len(rewards))):
        delta = rewards[t] + GAMMA * following - values[t]
        running = delta + GAMMA * LAMBDA * running
        adv[t], following = running, values[t]
    return adv


def train():
    keras.utils.set_random_seed(0)
    envs, norm, agent = ReservoirEnvs(seed=1), ObsNormalizer(), Agent()
    raw = envs.observe()
    scores = []
    for it in range(1, ITERATIONS + 1):
        raws, obs, acts, rews, vals = [], [], [], [], []
        for _ in range(HORIZON):
            o = norm(raw).astype("float32")
            a, v = agent.act(o)
            raws.append(raw); obs.append(o); acts.append(a.numpy()); vals.append(v.numpy())
            raw, r = envs.step(acts[-1])
            rews.append(r)
        _, last = agent.act(norm(raw).astype("float32"))
        rews, vals = np.stack(rews), np.stack(vals)
        adv = gae(rews, vals, last.numpy())
        ret = adv + vals
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        agent.learn(np.concatenate(obs), np.concatenate(acts), adv.reshape(-1), ret.reshape(-1))
        norm.update(np.concatenate(raws))
        scores.append(rews.mean())
        if it % 95 == 0:
            print(f"iteration {it:4d}  mean reward {np.mean(scores[-95:]):.3f}")
    return ITERATIONS


t0 = time.time()
n = train()
t1 = time.time()
print(f"WORK {n}")
print(f"TRAIN_SECONDS {t1 - t0:.3f}")
