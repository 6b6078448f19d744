"""Model-based control of a planar reacher: learned dynamics + CEM planning."""
import functools

import keras
import numpy as np
import tensorflow as tf

S_DIM, A_DIM = 6, 2


class Reacher:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = np.concatenate([self.rng.uniform(-2, 2, 2), np.zeros(2),
                                     self.rng.uniform(-1.2, 1.2, 2)]).astype(np.float32)
        return self.state.copy()

    def step(self, action):
        q, dq, goal = np.split(self.state, 3)
        dq = 0.95 * dq + 0.1 * action - 0.02 * np.sin(q)
        q = q + 0.1 * dq
        self.state = np.concatenate([q, dq, goal]).astype(np.float32)
        return self.state.copy()


def cost_of(states):
    q, goal = states[:, :2], states[:, 4:]
    elbow = q[:, 0] + q[:, 1]
    x = np.cos(q[:, 0]) + np.cos(elbow) - goal[:, 0]
    y = np.sin(q[:, 0]) + np.sin(elbow) - goal[:, 1]
    return x ** 2 + y ** 2


def dynamics_net():
    net = keras.Sequential([
        keras.layers.Input((S_DIM + A_DIM,)),
        keras.layers.Dense(256, activation="swish"),
        keras.layers.Dense(256, activation="swish"),
        keras.layers.Dense(S_DIM),
    ])
    net.compile(keras.optimizers.Adam(1e-3), "mse")
    return net


class CEMPlanner:
    def __init__(self, net, horizon=12, candidates=256, elites=24, rounds=3):
        self.horizon, self.candidates = horizon, candidates
        self.elites, self.rounds = elites, rounds
        self.delta = functools.partial(net.predict, batch_size=candidates, verbose=0)
        self.rng = np.random.default_rng(1)

    def rollout(self, state, plans):
        states = np.repeat(state[None], len(plans), axis=0)
        total = np.zeros(len(plans), np.float32)
        for t in range(self.horizon):
            states = states + self.delta(np.concatenate([states, plans[:, t]], axis=1))
            total += cost_of(states)
        return total

    def __call__(self, state):
        mean = np.zeros((self.horizon, A_DIM), np.float32)
        std = np.ones_like(mean)
        for _ in range(self.rounds):
            noise = self.rng.standard_normal((self.candidates,) + mean.shape, np.float32)
            plans = np.clip(mean + std * noise, -1, 1)
            best = plans[np.argsort(self.rollout(state, plans))[:self.elites]]
            mean, std = best.mean(0), best.std(0) + 1e-3
        return mean[0]


class Agent:
    def __init__(self, iterations=12, episodes=4, length=100):
        self.env, self.net = Reacher(), dynamics_net()
        self.planner = CEMPlanner(self.net)
        self.iterations, self.episodes, self.length = iterations, episodes, length
        self.inputs, self.targets = [], []

    def random_policy(self, _):
        return self.env.rng.uniform(-1, 1, A_DIM).astype(np.float32)

    def collect(self, policy, episodes):
        finals = []
        for _ in range(episodes):
            s = self.env.reset()
            for _ in range(self.length):
                a = policy(s)
                nxt = self.env.step(a)
                self.inputs.append(np.concatenate([s, a]))
                self.targets.append(nxt - s)
                s = nxt
            finals.append(cost_of(s[None])[0])
        return np.mean(finals)

    def learn(self):
        self.collect(self.random_policy, 150)
        for it in range(self.iterations):
            hist = self.net.fit(np.stack(self.inputs), np.stack(self.targets),
                                batch_size=512, epochs=15, verbose=0)
            final = self.collect(self.planner, self.episodes)
            print(f"iter {it}: model mse {hist.history['loss'][-1]:.2e} final cost {final:.3f}")


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    Agent().learn()
    print("devices:", tf.config.list_physical_devices())
