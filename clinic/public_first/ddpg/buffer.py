import numpy as np


class ReplayBuffer:
    def __init__(self, size, state, action):
        self.size, self.count = size, 0
        self.states, self.after = np.zeros((size, *state), np.float32), np.zeros((size, *state), np.float32)
        self.actions = np.zeros((size, *action), np.float32)
        self.rewards, self.dones = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def store(self, state, action, reward, after, done):
        i = self.count % self.size
        self.states[i], self.actions[i], self.rewards[i], self.after[i], self.dones[i] = state, action, reward, after, done
        self.count += 1

    def sample(self, batch):
        i = np.random.choice(min(self.count, self.size), batch)
        return self.states[i], self.actions[i], self.rewards[i], self.after[i], self.dones[i]
