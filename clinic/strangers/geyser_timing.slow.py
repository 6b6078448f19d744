"""Temporal-difference learning of how long a geyser basin sleeps."""
from collections import deque

import numpy as np
import keras


class Basin:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.normal(size=10).astype("float32")

    def tick(self):
        self.state = (0.9 * self.state + 0.3 * self.rng.normal(size=10)).astype("float32")
        return self.state, float(self.state[:3].sum() > 1.0)


class Forecaster:
    discount = 0.93

    def __init__(self):
        self.values = keras.Sequential([keras.Input((10,)), keras.layers.Dense(48, "relu"),
                                        keras.layers.Dense(48, "relu"), keras.layers.Dense(1)])
        self.values.compile(keras.optimizers.Adam(1e-3), "mse")
        self.memory = deque(maxlen=256)

    def worth(self, state):
        return float(self.values.predict(state[None, :], verbose=0)[0, 0])

    def remember(self, before, reward, after):
        target = reward + self.discount * self.worth(after)
        self.memory.append((before, target))

    def learn(self, rng, size=32):
        chosen = rng.integers(0, len(self.memory), size)
        states = np.stack([self.memory[i][0] for i in chosen])
        targets = np.array([[self.memory[i][1]] for i in chosen], dtype="float32")
        return self.values.train_on_batch(states, targets)


def main():
    keras.utils.set_random_seed(19)
    basin, forecaster = Basin(19), Forecaster()
    rng = np.random.default_rng(20)
    before = basin.state
    for _ in range(110):
        after, reward = basin.tick()
        forecaster.remember(before, reward, after)
        loss = forecaster.learn(rng)
        before = after
    print("td loss", float(loss))


main()
