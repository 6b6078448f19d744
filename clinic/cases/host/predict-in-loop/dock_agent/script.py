"""Q-learning for a crane that moves containers along a quay."""
import random
from collections import deque

import numpy as np
import keras

keras.utils.set_random_seed(23)


class Quay:
    def reset(self):
        self.at, self.goal, self.t = 5, random.randrange(12), 0
        return self.state()

    def state(self):
        return np.array([self.at / 12, self.goal / 12, self.t / 30], "float32")

    def act(self, a):
        self.at = min(11, max(0, self.at + (a - 1)))
        self.t += 1
        return self.state(), float(self.at == self.goal) - 0.02, self.t >= 30


class Agent:
    def __init__(self):
        self.q = keras.Sequential([keras.Input((3,)), keras.layers.Dense(32, "relu"),
                                   keras.layers.Dense(32, "relu"), keras.layers.Dense(3)])
        self.q.compile(keras.optimizers.Adam(1e-3), "mse")
        self.memory = deque(maxlen=2000)
        self.eps = 0.2

    def values(self, states):
        return self.q.predict(states, verbose=0)

    def choose(self, s):
        greedy = int(self.values(s[None])[0].argmax())
        return random.randrange(3) if random.random() < self.eps else greedy

    def learn(self):
        batch = random.sample(self.memory, 32)
        s, a, r, s2, end = (np.array(c) for c in zip(*batch))
        target = np.array(self.values(s))
        target[np.arange(32), a] = r + 0.95 * np.array(self.values(s2)).max(1) * (1 - end)
        return self.q.train_on_batch(s, target.astype("float32"))


def main(steps=90):
    env, agent = Quay(), Agent()
    s = env.reset()
    for step in range(steps + 32):
        a = agent.choose(s)
        s2, r, end = env.act(a)
        agent.memory.append((s, a, r, s2, float(end)))
        s = env.reset() if end else s2
        if len(agent.memory) > 32:
            loss = agent.learn()
    print("loss", loss)


main()
