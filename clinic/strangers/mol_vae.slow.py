"""beta-VAE with a Gumbel-softmax code on binary fingerprints; KL weight and temperature are annealed during training."""
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers

BITS, CODES, CLASSES = 512, 16, 8


class Anneal(NamedTuple):
    beta: float
    tau: float


def anneal_at(step, total):
    frac = min(1.0, step / (0.9 * total))
    return Anneal(beta=0.02 + 0.98 * frac, tau=2.0 * (0.25 ** frac))


def fingerprints(n, seed=0):
    r = np.random.default_rng(seed)
    proto = r.random((40, BITS)) < 0.15
    flip = r.random((n, BITS)) < 0.02
    return (proto[r.integers(0, 40, n)] ^ flip).astype("float32")


class DiscreteVAE:
    def __init__(self):
        self.enc = Sequential([layers.Input((BITS,)), layers.Dense(256, "relu"), layers.Dense(128, "relu"),
                               layers.Dense(CODES * CLASSES)])
        self.dec = Sequential([layers.Input((CODES * CLASSES,)), layers.Dense(128, "relu"), layers.Dense(256, "relu"),
                               layers.Dense(BITS)])
        self.opt = optimizers.Adam(1e-3)
        self.vars = self.enc.trainable_variables + self.dec.trainable_variables
        self.opt.build(self.vars)

    @tf.function
    def step(self, x, schedule):
        with tf.GradientTape() as tape:
            logits = tf.reshape(self.enc(x), (-1, CODES, CLASSES))
            u = tf.random.uniform(tf.shape(logits), 1e-6, 1.0 - 1e-6)
            z = tf.nn.softmax((logits - tf.math.log(-tf.math.log(u))) / schedule.tau)
            rec = self.dec(tf.reshape(z, (-1, CODES * CLASSES)))
            nll = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=rec), -1)
            q = tf.nn.softmax(logits)
            kl = tf.reduce_sum(q * (tf.nn.log_softmax(logits) + np.log(CLASSES)), (1, 2))
            loss = tf.reduce_mean(nll + schedule.beta * kl)
        self.opt.apply_gradients(zip(tape.gradient(loss, self.vars), self.vars))
        return loss, tf.reduce_mean(kl)


def run(total=64, batch=128):
    data = fingerprints(8192)
    ds = tf.data.Dataset.from_tensor_slices(data).shuffle(8192).repeat().batch(batch).prefetch(2)
    vae = DiscreteVAE()
    t = time.perf_counter()
    for i, x in enumerate(ds.take(total)):
        loss, kl = vae.step(x, anneal_at(i, total))
        if i % 16 == 15:
            print(f"step {i + 1}: loss {loss:.2f} kl {kl:.2f} ({time.perf_counter() - t:.1f}s)")


if __name__ == "__main__":
    run()
