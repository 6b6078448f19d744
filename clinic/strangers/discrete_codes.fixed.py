"""Discrete (Gumbel-softmax) autoencoder on binary 28x28 patterns."""
import math
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CFG = dict(
    groups=20, classes=10, hidden=256, pixels=784, batch=128, steps=600, lr=1e-3,
    tau=dict(start=1.0, floor=0.5, rate=8e-4, hold=12),
)


class Annealer:
    """Exponential schedule held constant for a few steps at a time."""

    def __init__(self, start, floor, rate, hold):
        self.start, self.floor, self.rate, self.hold = start, floor, rate, hold

    def __call__(self, step):
        k = step // self.hold * self.hold
        return max(self.floor, self.start * math.exp(-self.rate * k))


class DiscreteAutoencoder:
    def __init__(self, cfg):
        self.cfg = cfg
        code = cfg["groups"] * cfg["classes"]
        self.encoder = keras.Sequential([
            layers.Input((cfg["pixels"],)),
            layers.Dense(cfg["hidden"], activation="relu"),
            layers.Dense(code),
        ])
        self.decoder = keras.Sequential([
            layers.Input((code,)),
            layers.Dense(cfg["hidden"], activation="relu"),
            layers.Dense(cfg["pixels"]),
        ])
        self.schedule = Annealer(**cfg["tau"])
        self.optimizer = keras.optimizers.Adam(cfg["lr"])
        self.weights = self.encoder.trainable_variables + self.decoder.trainable_variables
        self.optimizer.build(self.weights)

    def relax(self, logits, tau):
        u = tf.random.uniform(tf.shape(logits), 1e-6, 0.99999)
        gumbel = -tf.math.log(-tf.math.log(u))
        return tf.nn.softmax((logits + gumbel) / tau)

    @tf.function
    def update(self, x, tau):
        g, c = self.cfg["groups"], self.cfg["classes"]
        with tf.GradientTape() as tape:
            logits = tf.reshape(self.encoder(x, training=True), (-1, g, c))
            z = tf.reshape(self.relax(logits, tau), (-1, g * c))
            out = self.decoder(z, training=True)
            nll = tf.reduce_sum(
                tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=out), axis=1)
            q = tf.nn.softmax(logits)
            kl = tf.reduce_sum(q * (tf.math.log(q + 1e-9) + math.log(c)), axis=(1, 2))
            loss = tf.reduce_mean(nll + kl)
        grads = tape.gradient(loss, self.weights)
        self.optimizer.apply_gradients(zip(grads, self.weights))
        return loss

    def train(self, batches):
        t0 = time.time()
        for step, x in enumerate(batches.take(self.cfg["steps"])):
            loss = self.update(x, tf.constant(self.schedule(step), tf.float32))
            if step % 100 == 0:
                print(f"step {step:4d}  loss {float(loss):8.3f}  tau {self.schedule(step):.3f}")
        print(f"last loss {float(loss):.3f} after {time.time() - t0:.1f} s")


def patterns(n, pixels, rng):
    protos = rng.random((40, pixels), dtype=np.float32) ** 2
    pick = rng.integers(0, len(protos), n)
    return (rng.random((n, pixels), dtype=np.float32) < protos[pick]).astype("float32")


if __name__ == "__main__":
    tf.random.set_seed(3)
    data = patterns(12800, CFG["pixels"], np.random.default_rng(3))
    ds = tf.data.Dataset.from_tensor_slices(data).shuffle(4096, seed=3)
    ds = ds.batch(CFG["batch"], drop_remainder=True).repeat().prefetch(tf.data.AUTOTUNE)
    DiscreteAutoencoder(CFG).train(ds)
