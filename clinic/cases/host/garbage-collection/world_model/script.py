import gc
import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers, optimizers


def rollouts(n, horizon, rng):
    """Bouncing ball on a 12x12 retina with a controllable paddle."""
    pos, vel = rng.uniform(2, 10, (n, 2)), rng.uniform(-1, 1, (n, 2))
    pad = rng.uniform(2, 10, n)
    grid = np.arange(12)
    frames, acts = [], []
    for _ in range(horizon):
        a = rng.integers(-1, 2, n)
        pad = np.clip(pad + a, 0, 11)
        pos = pos + vel
        hit = (pos < 0) | (pos > 11)
        vel = np.where(hit, -vel, vel)
        pos = np.clip(pos, 0, 11)
        img = np.exp(-((grid[None, :, None] - pos[:, 0, None, None]) ** 2 + (grid[None, None] - pos[:, 1, None, None]) ** 2) / 2)
        img[:, 11] += np.exp(-(grid[None] - pad[:, None]) ** 2 / 2)
        frames.append(img.reshape(n, -1))
        acts.append(a)
    return np.stack(frames, 1).astype("float32"), np.stack(acts, 1).astype("float32")


class LatentDynamics(Model):
    def __init__(self, latent=24, units=96):
        super().__init__()
        self.enc = layers.Dense(128, activation="relu")
        self.code = layers.Dense(latent)
        self.core = layers.GRU(units, return_sequences=True)
        self.nxt = layers.Dense(latent)
        self.dec1 = layers.Dense(128, activation="relu")
        self.dec2 = layers.Dense(144)

    def call(self, obs, act):
        z = self.code(self.enc(obs))
        h = self.core(tf.concat([z[:, :-1], act[:, :-1, None]], -1))
        return self.dec2(self.dec1(z)), self.dec2(self.dec1(self.nxt(h)))


rng = np.random.default_rng(0)
frames, acts = rollouts(1200, 24, rng)
model = LatentDynamics()
opt = optimizers.Adam(1e-3)


@tf.function
def train_on(obs, act):
    with tf.GradientTape() as tape:
        rec, pred = model(obs, act)
        loss = tf.reduce_mean((rec - obs) ** 2) + tf.reduce_mean((pred - obs[:, 1:]) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


seen = 0
clock = time.perf_counter()
for epoch in range(3):
    order = rng.permutation(len(frames))
    for i in range(0, len(order) - 63, 64):
        idx = order[i:i + 64]
        loss = train_on(tf.constant(frames[idx]), tf.constant(acts[idx]))
        seen += len(idx)
        gc.collect()
    print("epoch", epoch, "loss %.4f" % float(loss))
print("WORK", seen)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - clock))
