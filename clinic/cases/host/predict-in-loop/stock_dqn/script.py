import collections
import os
import random
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow import keras


class WarehouseEnv:
    """Order-up-to problem: pick an order quantity each day, demand is Poisson."""
    def __init__(self, seed=1):
        self.rng = np.random.default_rng(seed)
        self.horizon = 45

    def reset(self):
        self.stock, self.pipeline, self.day = 12.0, [0.0, 0.0], 0
        return self._obs()

    def _obs(self):
        return np.array([self.stock / 20, *[p / 10 for p in self.pipeline],
                         np.sin(self.day / 7), np.cos(self.day / 7)], dtype="float32")

    def step(self, order):
        self.stock += self.pipeline.pop(0)
        self.pipeline.append(float(order * 3))
        demand = self.rng.poisson(5 + 2 * np.sin(self.day / 7))
        sold = min(self.stock, demand)
        self.stock -= sold
        reward = 2 * sold - 0.3 * self.stock - 1.0 * (demand - sold)
        self.day += 1
        return self._obs(), float(reward), self.day >= self.horizon


class Agent:
    def __init__(self, n_obs=5, n_act=5):
        self.n_act = n_act
        self.memory = collections.deque(maxlen=5000)
        self.gamma, self.epsilon = 0.97, 0.3
        self.q = self._net(n_obs)
        self.target = self._net(n_obs)
        self.target.set_weights(self.q.get_weights())

    def _net(self, n_obs):
        m = keras.Sequential([keras.Input((n_obs,)), keras.layers.Dense(64, activation="relu"),
                              keras.layers.Dense(64, activation="relu"), keras.layers.Dense(self.n_act)])
        m.compile(optimizer=keras.optimizers.Adam(1e-3), loss="huber")
        return m

    def act(self, s):
        if random.random() < self.epsilon:
            return random.randrange(self.n_act)
        return int(np.argmax(self.q.predict(s[None], verbose=0)[0]))

    def learn(self, size=64):
        batch = random.sample(self.memory, size)
        s, a, r, s2, d = map(np.array, zip(*batch))
        nxt = np.asarray(self.target(s2))
        y = np.array(self.q(s))
        y[np.arange(size), a] = r.astype("float32") + self.gamma * nxt.max(1) * (1 - d)
        return self.q.train_on_batch(s, y)


random.seed(0)
env, agent = WarehouseEnv(), Agent()
steps = 0
began = time.perf_counter()
for episode in range(3):
    s, done, ret = env.reset(), False, 0.0
    while not done:
        a = agent.act(s)
        s2, r, done = env.step(a)
        agent.memory.append((s, a, r, s2, float(done)))
        s, ret, steps = s2, ret + r, steps + 1
        if len(agent.memory) >= 64:
            agent.learn()
    agent.epsilon *= 0.8
    agent.target.set_weights(agent.q.get_weights())
    print("episode", episode, "return %.1f" % ret)
print("WORK", steps)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - began))
