"""Policy gradient for night-time rebalancing of a small bike sharing system (toy simulator)."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class RunConfig:
    stations: int = 12
    capacity: int = 20
    n_envs: int = 64
    horizon: int = 200
    iterations: int = 40
    gamma: float = 0.98
    lr: float = 3e-4
    batch: int = 512
    inner_epochs: int = 4


class BikeCity:
    """n_envs cities stepped together; action k moves three bikes to station k from the fullest one."""

    def __init__(self, cfg, seed=0):
        self.cfg = cfg
        self.rng = np.random.default_rng(seed)
        self.base = self.rng.dirichlet(np.ones(cfg.stations) * 2.0)
        self.reset()

    def reset(self):
        c = self.cfg
        self.stock = self.rng.integers(4, 16, (c.n_envs, c.stations)).astype(np.float32)
        self.clock = 0
        return self.observe()

    def observe(self):
        phase = 2 * np.pi * self.clock / self.cfg.horizon
        extra = np.tile(np.array([[np.sin(phase), np.cos(phase)]], np.float32), (self.cfg.n_envs, 1))
        return np.concatenate([self.stock / self.cfg.capacity, extra], axis=1).astype(np.float32)

    def step(self, actions):
        rows = np.arange(self.cfg.n_envs)
        src = self.stock.argmax(axis=1)
        moved = np.minimum(3, self.stock[rows, src])
        self.stock[rows, src] -= moved
        self.stock[rows, actions] += moved
        demand = self.rng.poisson(self.base * 6.0, self.stock.shape)
        returned = self.rng.poisson(self.base[::-1] * 6.0, self.stock.shape)
        missed = np.maximum(demand - self.stock, 0).sum(axis=1)
        self.stock = np.maximum(self.stock - demand, 0) + returned
        spill = np.maximum(self.stock - self.cfg.capacity, 0).sum(axis=1)
        self.stock = np.minimum(self.stock, self.cfg.capacity).astype(np.float32)
        self.clock += 1
        return self.observe(), (-missed - 0.5 * spill).astype(np.float32)


def build_policy(cfg):
    model = keras.Sequential([
        keras.Input((cfg.stations + 2,)),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(256, activation="relu"),
        keras.layers.Dense(cfg.stations, activation="softmax"),
    ])
    model.compile(keras.optimizers.Adam(cfg.lr), loss="sparse_categorical_crossentropy")
    return model


class Agent:
    def __init__(self, cfg):
        self.cfg = cfg
        self.policy = build_policy(cfg)

    @tf.function
    def sample(self, obs):
        p = self.policy(obs, training=False)
        return tf.random.categorical(tf.math.log(p + 1e-8), 1)[:, 0]

    def act(self, obs):
        return self.sample(tf.constant(obs)).numpy()

    def rollout(self, env):
        obs = env.reset()
        all_obs, all_act, all_rew = [], [], []
        for _ in range(self.cfg.horizon):
            a = self.act(obs)
            nxt, r = env.step(a)
            all_obs.append(obs)
            all_act.append(a)
            all_rew.append(r)
            obs = nxt
        return np.stack(all_obs), np.stack(all_act), np.stack(all_rew)

    def advantages(self, rewards):
        out = np.zeros_like(rewards)
        run = np.zeros(rewards.shape[1], np.float32)
        for t in range(len(rewards) - 1, -1, -1):
            run = rewards[t] + self.cfg.gamma * run
            out[t] = run
        out -= out.mean(axis=1, keepdims=True)
        return out / (out.std() + 1e-6)

    def learn(self, obs, act, adv):
        self.policy.fit(
            obs.reshape(-1, obs.shape[-1]), act.reshape(-1), sample_weight=adv.reshape(-1),
            batch_size=self.cfg.batch, epochs=self.cfg.inner_epochs, verbose=0,
        )


if __name__ == "__main__":
    cfg = RunConfig()
    tf.random.set_seed(3)
    env = BikeCity(cfg)
    agent = Agent(cfg)
    for it in range(cfg.iterations):
        obs, act, rew = agent.rollout(env)
        agent.learn(obs, act, agent.advantages(rew))
        print(f"iter {it:3d}  mean return {rew.sum(axis=0).mean():.1f}")
    agent.policy.save("bike_policy.keras")
