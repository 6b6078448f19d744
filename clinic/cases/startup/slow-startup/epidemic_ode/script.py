"""Neural ODE for epidemic curves: the unknown transmission term of an SIR model is a small network."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
from dataclasses import dataclass
import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Setup:
    days: int = 24
    per_day: int = 3
    regions: int = 32
    updates: int = 120
    hidden: int = 16

    @property
    def dt(self):
        return 1.0 / self.per_day


def surveillance(cfg, seed=40):
    rng = np.random.default_rng(seed)
    n = 640
    s, i = np.full(n, 0.99), np.full(n, 0.01)
    beta = rng.uniform(0.3, 0.6, n)
    curve = []
    for _ in range(cfg.days):
        for _ in range(cfg.per_day):
            new = beta * s * i / (1 + 5 * i) * cfg.dt
            s, i = s - new, i + new - 0.1 * i * cfg.dt
        curve.append(i.copy())
    return beta.astype("float32"), np.stack(curve, 1).astype("float32")


class Epidemic(tf.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.rate = tf.keras.Sequential([tf.keras.layers.Input((3,)),
                                         tf.keras.layers.Dense(cfg.hidden, activation="tanh"),
                                         tf.keras.layers.Dense(1, activation="softplus")])

    def advance(self, s, i, beta):
        new = self.rate(tf.stack([s, i, beta], 1))[:, 0] * s * i * self.cfg.dt
        return s - new, i + new - 0.1 * i * self.cfg.dt

    def loss(self, beta, target):
        s = tf.fill(tf.shape(beta), 0.99)
        i = tf.fill(tf.shape(beta), 0.01)
        err = tf.constant(0.0)
        for day in range(self.cfg.days):
            for _ in range(self.cfg.per_day):
                s, i = self.advance(s, i, beta)
            err += tf.reduce_mean(tf.square(i - tf.gather(target, day, axis=1)))
        return err / self.cfg.days


cfg = Setup()
beta, curve = surveillance(cfg)
model = Epidemic(cfg)
opt = tf.keras.optimizers.Adam(3e-3)


@tf.function
def update(b, c):
    with tf.GradientTape() as tape:
        loss = model.loss(b, c)
    grads = tape.gradient(loss, model.rate.trainable_variables)
    opt.apply_gradients(zip(grads, model.rate.trainable_variables))
    return loss


batches = (tf.data.Dataset.from_tensor_slices((beta, curve)).cache().shuffle(640).repeat()
           .batch(cfg.regions).take(cfg.updates).prefetch(2))
for k, (b, c) in enumerate(batches):
    loss = update(b, c)
    if k % 40 == 0:
        print("update", k, "loss", float(loss), flush=True)
