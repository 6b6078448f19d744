"""DQN for a toy docking task (course project)."""
import random
import time
from collections import deque

import numpy as np
from tensorflow import keras


class DockEnv:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.s = self.rng.uniform(-1, 1, 8).astype("float32")
        self.t = 0
        return self.s.copy()

    def step(self, a):
        force = np.zeros(8, "float32")
        force[a] = 0.1
        self.s = np.clip(0.97 * self.s + force - 0.03, -2, 2).astype("float32")
        self.t += 1
        reward = -float(np.abs(self.s).sum())
        return self.s.copy(), reward, self.t >= 60 or reward > -0.4


class Agent:
    def __init__(self, n_state=8, n_action=8):
        self.n_action = n_action
        self.memory = deque(maxlen=4000)
        self.gamma, self.epsilon = 0.97, 0.4
        self.model = self._net(n_state)
        self.target = self._net(n_state)
        self.target.set_weights(self.model.get_weights())

    def _net(self, n_state):
        m = keras.Sequential([
            keras.layers.Input((n_state,)),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(256, activation="relu"),
            keras.layers.Dense(self.n_action),
        ])
        m.compile(loss="huber", optimizer=keras.optimizers.Adam(1e-3))
        return m

    def act(self, state):
        if random.random() < self.epsilon:
            return random.randrange(self.n_action)
        q = self.model.predict(state[None], verbose=0)
        return int(np.argmax(q[0]))

    def learn(self, batch_size=64):
        if len(self.memory) < batch_size:
            return
        s, a, r, s2, d = map(np.array, zip(*random.sample(self.memory, batch_size)))
        nxt = self.target.predict_on_batch(s2).max(1)
        q = np.array(self.model.predict_on_batch(s))
        q[np.arange(batch_size), a] = r + self.gamma * nxt * (1 - d)
        self.model.train_on_batch(s, q)


def main(episodes=3):
    random.seed(1)
    keras.utils.set_random_seed(1)
    env, agent = DockEnv(), Agent()
    steps = 0
    t0 = time.time()
    for ep in range(episodes):
        s, done, total = env.reset(), False, 0.0
        while not done:
            a = agent.act(s)
            s2, r, done = env.step(a)
            agent.memory.append((s, a, np.float32(r), s2, float(done)))
            s, total, steps = s2, total + r, steps + 1
            agent.learn()
        agent.epsilon = max(0.05, agent.epsilon * 0.6)
        agent.target.set_weights(agent.model.get_weights())
        print(f"episode {ep} return {total:.1f} eps {agent.epsilon:.2f}")
    t1 = time.time()
    print("WORK", steps)
    print("TRAIN_SECONDS %.2f" % (t1 - t0))


main()
