"""Model-based control of a planar reacher: learned dynamics + CEM planning."""
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
    x = tf.cos(q[:, 0]) + tf.cos(elbow) - goal[:, 0]
    y = tf.sin(q[:, 0]) + tf.sin(elbow) - goal[:, 1]
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
        self.net = net
        self.search = tf.function(self._search)

    def rollout(self, state, plans):
        states = tf.repeat(state[None], self.candidates, axis=0)
        total = tf.zeros(self.candidates)
        for t in range(self.horizon):
            states = states + self.net(tf.concat([states, plans[:, t]], axis=1), training=False)
            total += cost_of(states)
        return total

    def _search(self, state):
        mean = tf.zeros((self.horizon, A_DIM))
        std = tf.ones_like(mean)
        for _ in range(self.rounds):
            noise = tf.random.normal((self.candidates, self.horizon, A_DIM))
            plans = tf.clip_by_value(mean + std * noise, -1.0, 1.0)
            best = tf.gather(plans, tf.argsort(self.rollout(state, plans))[:self.elites])
            mean, std = tf.reduce_mean(best, 0), tf.math.reduce_std(best, 0) + 1e-3
        return mean[0]

    def __call__(self, state):
        return self.search(tf.constant(state)).numpy()


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
            finals.append(float(cost_of(s[None])[0]))
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
