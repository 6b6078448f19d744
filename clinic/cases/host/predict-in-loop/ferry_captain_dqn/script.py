"""DQN: steer a ferry over a river with changing current to the landing on the other side."""
import collections
import random
import time

import numpy as np
from tensorflow import keras

keras.utils.set_random_seed(9)
ACTIONS = 3


class River:
    def reset(self):
        self.x, self.y, self.t = random.uniform(-1, 1), 0.0, 0
        self.current = random.uniform(-0.08, 0.08)
        return self.look()

    def look(self):
        return np.array([self.x, self.y, self.current, self.t / 40], dtype="float32")

    def step(self, action):
        self.current = min(0.1, max(-0.1, self.current + random.gauss(0, 0.01)))
        self.x += self.current + (action - 1) * 0.09
        self.y += 0.05
        self.t += 1
        done = self.y >= 1.0 or abs(self.x) > 2
        reward = 1.0 - abs(self.x) if done else -0.01
        return self.look(), reward, done


class Captain:
    def __init__(self):
        self.q = self.network()
        self.memory = collections.deque(maxlen=5000)
        self.epsilon = 1.0

    def network(self):
        net = keras.Sequential([
            keras.Input((4,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(ACTIONS),
        ])
        net.compile(optimizer=keras.optimizers.Adam(2e-3), loss="mse")
        return net

    def act(self, state):
        values = self.q.predict(state[None], verbose=0)[0]
        if random.random() < self.epsilon:
            return random.randrange(ACTIONS)
        return int(values.argmax())

    def learn(self, batch=32, gamma=0.97):
        s, a, r, s2, d = map(np.array, zip(*random.sample(self.memory, batch)))
        both = self.q.predict_on_batch(np.concatenate([s, s2]))
        target, after = both[:batch].copy(), both[batch:]
        target[np.arange(batch), a] = r + gamma * after.max(1) * (1 - d)
        return self.q.train_on_batch(s, target)


captain, river = Captain(), River()
trained = 0
t0 = time.time()
for episode in range(11):
    state, done, total = river.reset(), False, 0.0
    while not done:
        action = captain.act(state)
        after, reward, done = river.step(action)
        captain.memory.append((state, action, reward, after, float(done)))
        state = after
        total += reward
        if len(captain.memory) >= 32:
            captain.learn()
            trained += 32
    captain.epsilon = max(0.05, captain.epsilon * 0.85)
    print("episode", episode, "return %.2f" % total)
print("WORK", trained)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
