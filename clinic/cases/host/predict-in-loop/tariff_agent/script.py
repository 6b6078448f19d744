# A small Q-learner that charges a home battery under a changing tariff.
import collections
import random
import time

import numpy as np
import keras
from keras import layers

random.seed(5)
keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)


class Battery:
    """State: charge, hour (sin, cos), price now and the last three prices."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.hour, self.charge = 0, 0.5
        self.prices = collections.deque([0.3] * 4, maxlen=4)
        return self.view()

    def view(self):
        a = 2 * np.pi * self.hour / 24
        return np.array([self.charge, np.sin(a), np.cos(a), *self.prices], "float32")

    def act(self, action):
        delta = (action - 1) * 0.1
        new = float(np.clip(self.charge + delta, 0, 1))
        reward = -(new - self.charge) * self.prices[-1] * 10
        self.charge = new
        self.hour = (self.hour + 1) % 24
        self.prices.append(0.3 + 0.2 * np.sin(2 * np.pi * (self.hour - 7) / 24) + 0.03 * rng.normal())
        return self.view(), reward


def q_net():
    model = keras.Sequential([
        keras.Input((7,)),
        layers.Dense(64, activation="relu"),
        layers.Dense(64, activation="relu"),
        layers.Dense(3),
    ])
    model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="huber")
    return model


online, memory = q_net(), collections.deque(maxlen=2000)
GAMMA, BATCH = 0.95, 64


def q_values(states):
    return online(states, training=False).numpy()


def replay():
    batch = random.sample(memory, BATCH)
    s, a, r, s2 = (np.array(v) for v in zip(*batch))
    target = q_values(s)
    target[np.arange(BATCH), a] = r + GAMMA * q_values(s2).max(1)
    history = online.fit(s, target, batch_size=BATCH, epochs=1, verbose=0)
    return history.history["loss"][0]


env = Battery()
state, epsilon, losses = env.reset(), 1.0, []
start = time.perf_counter()
for hour in range(24 * 8):
    if random.random() < epsilon:
        action = random.randrange(3)
    else:
        action = int(q_values(state[None])[0].argmax())
    nxt, reward = env.act(action)
    memory.append((state, action, np.float32(reward), nxt))
    state, epsilon = nxt, max(0.05, epsilon * 0.985)
    if len(memory) >= BATCH:
        losses.append(replay())
    if hour % 48 == 47:
        print(f"day {hour // 24 + 1:2d}  eps {epsilon:.2f}  updates {len(losses)}")
print("seconds:", round(time.perf_counter() - start, 2), "updates:", len(losses))
