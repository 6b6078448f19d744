import random
from collections import deque

import numpy as np


class Replay:
    def __init__(self, size):
        self.buffer = deque(maxlen=size)

    def __len__(self):
        return len(self.buffer)

    def push(self, *transition):
        self.buffer.append(transition)

    def sample(self, n):
        batch = random.sample(self.buffer, n)
        obs, actions, rewards, after, dones = map(np.array, zip(*batch))
        return obs.astype("float32"), actions, rewards.astype("float32"), after.astype("float32"), dones.astype("float32")
