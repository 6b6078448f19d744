"""Double DQN with prioritised replay for a flight of canal locks.

The keeper decides every ten minutes which of the paddles to draw (or none).
We learn from the logs of past seasons only (no simulator while training).
"""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras

BASINS = 6
ACTIONS = 5
STATE = 2 * BASINS          # level of each basin, boats waiting at each basin


@dataclass
class Settings:
    gamma: float = 0.97
    batch: int = 128
    updates: int = 900
    sync_every: int = 150
    lr: float = 5e-4
    alpha: float = 0.6
    beta: float = 0.4


class LockLog:
    """Plays the random keeper of the past on many canals at once."""

    def __init__(self, rng, canals=200, ticks=200):
        paddle = rng.normal(0.0, 0.3, size=(ACTIONS, BASINS)).astype("float32")
        paddle[0] = 0.0
        level = rng.normal(0.0, 0.5, size=(canals, BASINS)).astype("float32")
        boats = rng.poisson(1.0, size=(canals, BASINS)).astype("float32")
        rows = {k: [] for k in ("s", "a", "r", "s2")}
        for _ in range(ticks):
            state = np.concatenate([level, boats], axis=1)
            action = rng.integers(0, ACTIONS, size=canals)
            inflow = rng.normal(0.02, 0.05, size=level.shape).astype("float32")
            level = 0.95 * level + paddle[action] + inflow
            passed = (np.abs(level) < 0.4) * np.minimum(boats, 1.0)
            boats = boats - passed + rng.poisson(0.3, size=boats.shape)
            boats = np.minimum(boats, 8.0).astype("float32")
            level = level.astype("float32")
            reward = passed.sum(axis=1) - 0.1 * boats.sum(axis=1) - np.square(level).mean(axis=1)
            rows["s"].append(state)
            rows["a"].append(action.astype("int32"))
            rows["r"].append(reward.astype("float32"))
            rows["s2"].append(np.concatenate([level, boats], axis=1))
        self.s, self.a, self.r, self.s2 = (np.concatenate(rows[k]) for k in ("s", "a", "r", "s2"))

    def __len__(self):
        return len(self.a)


class PrioritisedMemory:
    def __init__(self, log, cfg, rng):
        self.log, self.cfg, self.rng = log, cfg, rng
        self.priority = np.ones(len(log), dtype="float64")

    def sample(self):
        p = self.priority ** self.cfg.alpha
        p /= p.sum()
        picked = self.rng.choice(len(p), size=self.cfg.batch, p=p)
        weight = (len(p) * p[picked]) ** -self.cfg.beta
        weight = (weight / weight.max()).astype("float32")
        return picked, weight


def q_network(name):
    return keras.Sequential(
        [
            keras.Input((STATE,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(ACTIONS),
        ],
        name=name,
    )


class Keeper:
    def __init__(self, cfg):
        self.cfg = cfg
        self.online = q_network("online")
        self.target = q_network("target")
        self.sync()
        self.optimizer = keras.optimizers.Adam(cfg.lr)
        self.optimizer.build(self.online.trainable_variables)

    def sync(self):
        self.target.set_weights(self.online.get_weights())

    @tf.function
    def learn(self, s, a, r, s2, weight):
        best = tf.argmax(self.online(s2), axis=-1, output_type=tf.int32)
        future = tf.gather(self.target(s2), best, axis=1, batch_dims=1)
        goal = r + self.cfg.gamma * future
        with tf.GradientTape() as tape:
            q = tf.gather(self.online(s, training=True), a, axis=1, batch_dims=1)
            td = goal - q
            loss = tf.reduce_mean(weight * tf.square(td))
        variables = self.online.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss, td


def train(cfg, log, rng):
    memory = PrioritisedMemory(log, cfg, rng)
    keeper = Keeper(cfg)
    for update in range(1, cfg.updates + 1):
        picked, weight = memory.sample()
        loss, td = keeper.learn(
            tf.constant(log.s[picked]), tf.constant(log.a[picked]), tf.constant(log.r[picked]),
            tf.constant(log.s2[picked]), tf.constant(weight),
        )
        # surprise of each transition becomes its priority
        for i, j in enumerate(picked):
            memory.priority[j] = abs(float(td[i])) + 1e-3
        if update % cfg.sync_every == 0:
            keeper.sync()
            print(f"update {update}: loss {float(loss):.4f}, "
                  f"mean priority {memory.priority.mean():.3f}")
    return keeper


if __name__ == "__main__":
    keras.utils.set_random_seed(5)
    rng = np.random.default_rng(5)
    log = LockLog(rng)
    cfg = Settings()
    print(len(log), "logged transitions")
    t0 = time.time()
    keeper = train(cfg, log, rng)
    took = time.time() - t0
    greedy = np.argmax(keeper.online(log.s[:2000]).numpy(), axis=1)
    print("actions of the greedy keeper:", np.bincount(greedy, minlength=ACTIONS))
    print("TRAIN_SECONDS %.2f" % took)
