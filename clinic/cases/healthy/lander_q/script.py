"""Fitted Q iteration from a fixed log of a small lander; custom loop."""
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(100)
OBS, ACTIONS, BATCH, STEPS, GAMMA = 16, 4, 512, 280, 0.97


def q_net():
    return tf.keras.Sequential([
        tf.keras.Input((OBS,)),
        tf.keras.layers.Dense(768, activation="relu"),
        tf.keras.layers.Dense(768, activation="relu"),
        tf.keras.layers.Dense(ACTIONS),
    ])


class Log:
    def __init__(self, n=50000):
        rng = np.random.default_rng(0)
        self.obs = rng.normal(size=(n, OBS)).astype("float32")
        self.act = rng.integers(0, ACTIONS, n).astype("int32")
        self.rew = (self.obs[:, 0] - 0.1 * self.act).astype("float32")
        self.nxt = self.obs + rng.normal(scale=0.1, size=(n, OBS)).astype("float32")
        self.end = (rng.random(n) < 0.02).astype("float32")

    def batches(self):
        parts = (self.obs, self.act, self.rew, self.nxt, self.end)
        ds = tf.data.Dataset.from_tensor_slices(parts)
        return ds.shuffle(5000, seed=2).batch(BATCH, drop_remainder=True).repeat().prefetch(2)


online, target = q_net(), q_net()
target.set_weights(online.get_weights())
opt = tf.keras.optimizers.Adam(3e-4)
mean_loss = tf.keras.metrics.Mean()


@tf.function
def update(obs, act, rew, nxt, end):
    best = tf.reduce_max(target(nxt), axis=1)
    goal = rew + GAMMA * (1.0 - end) * best
    with tf.GradientTape() as tape:
        q = tf.gather(online(obs), act, axis=1, batch_dims=1)
        loss = tf.reduce_mean(tf.square(goal - q))
    grads = tape.gradient(loss, online.trainable_variables)
    opt.apply_gradients(zip(grads, online.trainable_variables))
    mean_loss.update_state(loss)


t0 = time.time()
for i, batch in enumerate(Log().batches().take(STEPS), 1):
    update(*batch)
    if i % 40 == 0:
        target.set_weights(online.get_weights())
        print(i, "loss", float(mean_loss.result()), "t", round(time.time() - t0, 2))
        mean_loss.reset_state()
