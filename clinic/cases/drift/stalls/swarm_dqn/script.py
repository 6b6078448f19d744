"""Double-DQN on a vectorised toy swarm; resumable."""
import os
import tempfile
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Config:
    envs: int = 64
    obs: int = 48
    actions: int = 6
    capacity: int = 60_000
    batch: int = 256
    steps: int = 700
    gamma: float = 0.97
    sync_every: int = 100
    save_every: int = 60
    seed: int = 5


class Swarm:
    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        self.push = rng.standard_normal((cfg.actions, cfg.obs), dtype=np.float32) * 0.2
        self.s = rng.standard_normal((cfg.envs, cfg.obs), dtype=np.float32)

    def step(self, a):
        noise = self.rng.standard_normal(self.s.shape, dtype=np.float32) * 0.05
        self.s = 0.97 * self.s + self.push[a] + noise
        return self.s, -np.mean(self.s ** 2, axis=1)


class Replay:
    def __init__(self, cfg):
        n = cfg.capacity
        self.obs = np.zeros((n, cfg.obs), np.float32)
        self.nxt = np.zeros((n, cfg.obs), np.float32)
        self.act = np.zeros(n, np.int32)
        self.rew = np.zeros(n, np.float32)
        self.ptr = self.size = 0

    def add(self, o, a, r, o2):
        i = (self.ptr + np.arange(len(a))) % len(self.act)
        self.obs[i], self.act[i], self.rew[i], self.nxt[i] = o, a, r, o2
        self.ptr = int((i[-1] + 1) % len(self.act))
        self.size = min(self.size + len(a), len(self.act))

    def sample(self, rng, n):
        i = rng.integers(0, self.size, n)
        return self.obs[i], self.act[i], self.rew[i], self.nxt[i]


class Keeper:
    def __init__(self, cfg, net, replay):
        self.cfg, self.net, self.replay = cfg, net, replay
        self.folder = tempfile.mkdtemp(prefix="swarm_")

    def tick(self, step):
        if step and step % self.cfg.save_every == 0:
            self.net.save_weights(os.path.join(self.folder, "q.weights.h5"))
            np.savez_compressed(os.path.join(self.folder, "state.npz"), step=step, **vars(self.replay))


def q_net(cfg):
    return keras.Sequential([
        layers.Input((cfg.obs,)),
        layers.Dense(256, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(cfg.actions),
    ])


def main(cfg):
    keras.utils.set_random_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    env, replay = Swarm(cfg, rng), Replay(cfg)
    q, target = q_net(cfg), q_net(cfg)
    target.set_weights(q.get_weights())
    opt = keras.optimizers.Adam(5e-4)
    opt.build(q.trainable_variables)

    @tf.function
    def greedy(o):
        return tf.argmax(q(o), axis=1, output_type=tf.int32)

    @tf.function
    def learn(o, a, r, o2):
        best = tf.argmax(q(o2), axis=1, output_type=tf.int32)
        goal = r + cfg.gamma * tf.gather(target(o2), best, batch_dims=1)
        with tf.GradientTape() as tape:
            value = tf.gather(q(o, training=True), a, batch_dims=1)
            loss = tf.reduce_mean(tf.square(tf.stop_gradient(goal) - value))
        grads = tape.gradient(loss, q.trainable_variables)
        opt.apply_gradients(zip(grads, q.trainable_variables))
        return loss

    while replay.size < cfg.capacity:
        o, a = env.s, rng.integers(0, cfg.actions, cfg.envs)
        o2, r = env.step(a)
        replay.add(o, a, r, o2)

    keeper, rewards = Keeper(cfg, q, replay), np.zeros(cfg.steps)
    for step in range(cfg.steps):
        o = env.s
        a = np.where(rng.random(cfg.envs) < 0.1, rng.integers(0, cfg.actions, cfg.envs), greedy(o).numpy())
        o2, r = env.step(a)
        replay.add(o, a, r, o2)
        loss = learn(*replay.sample(rng, cfg.batch))
        rewards[step] = r.mean()
        if step % cfg.sync_every == 0:
            target.set_weights(q.get_weights())
            print(step, "loss %.4f" % float(loss), "reward %.4f" % rewards[max(0, step - 50):step + 1].mean())
        keeper.tick(step)


if __name__ == "__main__":
    main(Config())
