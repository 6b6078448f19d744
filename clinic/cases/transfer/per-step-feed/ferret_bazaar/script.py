"""Offline double-DQN for a market stall: which of 8 prices to set, from logged telemetry."""
import collections
import json
import random
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras

OBS, PRICES = 160, 8
Deal = collections.namedtuple("Deal", "seen price earned then closed")


def telemetry(n, seed=12):
    """The stall's box sends JSON, one line a deal."""
    g = np.random.default_rng(seed)
    now = np.round(g.normal(size=(n, OBS)), 4)
    for k in range(n):
        yield json.dumps({"s": now[k].tolist(), "a": int(g.integers(PRICES)), "r": float(g.normal()),
                          "t": now[(k + 1) % n].tolist(), "d": bool(k % 50 == 49)})


class Memory:
    def __init__(self, lines):
        self.deals = [Deal(d["s"], d["a"], d["r"], d["t"], d["d"]) for d in map(json.loads, lines)]
        self.dice = random.Random(1)

    def recall(self, n):
        drawn = Deal(*zip(*self.dice.sample(self.deals, n)))
        return (tf.convert_to_tensor(drawn.seen, tf.float32),
                tf.convert_to_tensor(drawn.price, tf.int32),
                tf.convert_to_tensor(drawn.earned, tf.float32),
                tf.convert_to_tensor(drawn.then, tf.float32),
                tf.convert_to_tensor(drawn.closed, tf.bool))


def qnet():
    return keras.Sequential([keras.Input((OBS,)), keras.layers.Dense(384, "relu"),
                             keras.layers.Dense(384, "relu"), keras.layers.Dense(PRICES)])


class Trader:
    def __init__(self):
        self.online, self.target = qnet(), qnet()
        self.target.set_weights(self.online.get_weights())
        self.opt = keras.optimizers.Adam(5e-4)
        self.opt.build(self.online.trainable_variables)

    @tf.function
    def study(self, s, a, r, t, d):
        best = tf.argmax(self.online(t), -1, output_type=tf.int32)
        worth = tf.gather(self.target(t), best, batch_dims=1)
        goal = r + 0.97 * tf.where(d, 0.0, worth)
        with tf.GradientTape() as tape:
            q = tf.gather(self.online(s, training=True), a, batch_dims=1)
            loss = tf.reduce_mean(keras.losses.huber(goal[:, None], q[:, None]))
        v = self.online.trainable_variables
        self.opt.apply_gradients(zip(tape.gradient(loss, v), v))
        return loss


def learn(trader, memory, updates, batch=128, sync=200):
    for k in range(updates):
        loss = trader.study(*memory.recall(batch))
        if k % sync == 0:
            trader.target.set_weights(trader.online.get_weights())
    return float(loss)


if __name__ == "__main__":
    memory = Memory(telemetry(4000))
    trader = Trader()
    learn(trader, memory, 5)
    UPDATES = 1200
    t = time.perf_counter()
    loss = learn(trader, memory, UPDATES)
    t = time.perf_counter() - t
    print(f"loss {loss:.4f}")
    print("WORK", UPDATES * 128)
    print("TRAIN_SECONDS", round(t, 3))
