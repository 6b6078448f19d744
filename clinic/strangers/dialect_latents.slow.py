"""Variational autoencoder over dialect-survey answers, KL weight warmed up during training."""
import math
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers


def survey(n=8192, questions=120, choices=4, seed=2):
    rng = np.random.default_rng(seed)
    region = rng.normal(size=(n, 3))
    loading = rng.normal(size=(3, questions * choices))
    logits = (region @ loading).reshape(n, questions, choices) + rng.gumbel(size=(n, questions, choices))
    return np.eye(choices, dtype=np.float32)[logits.argmax(-1)].reshape(n, -1)


class Encoder(tf.keras.Model):
    def __init__(self, latent):
        super().__init__()
        self.body = [layers.Dense(u, activation="relu") for u in (384, 192)]
        self.mean, self.logvar = layers.Dense(latent), layers.Dense(latent)

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.mean(x), self.logvar(x)


class Decoder(tf.keras.Model):
    def __init__(self, out):
        super().__init__()
        self.body = [layers.Dense(u, activation="relu") for u in (192, 384)]
        self.out = layers.Dense(out)

    def call(self, z):
        for layer in self.body:
            z = layer(z)
        return self.out(z)


def kl_weight(step, tau=60.0):
    return 1.0 - math.exp(-step / tau)


def main(steps=80, batch=512, refresh=5):
    tf.random.set_seed(4)
    x = survey()
    data = tf.data.Dataset.from_tensor_slices(x).shuffle(4096).repeat().batch(batch).prefetch(2)
    enc, dec = Encoder(12), Decoder(x.shape[1])
    opt = tf.keras.optimizers.Adam(1e-3)

    @tf.function
    def update(xb, beta):
        with tf.GradientTape() as tape:
            mu, logvar = enc(xb)
            z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
            logits = tf.reshape(dec(z), (-1, 120, 4))
            target = tf.reshape(xb, (-1, 120, 4))
            recon = tf.reduce_mean(tf.reduce_sum(
                tf.nn.softmax_cross_entropy_with_logits(target, logits), -1))
            kl = tf.reduce_mean(-0.5 * tf.reduce_sum(1 + logvar - mu ** 2 - tf.exp(logvar), -1))
            loss = recon + beta * kl
        variables = enc.trainable_variables + dec.trainable_variables
        opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return recon, kl

    beta, batches = 0.0, iter(data)
    clock = time.perf_counter()
    for step in range(steps):
        xb = next(batches)
        if step % refresh == 0:
            beta = kl_weight(step)
        recon, kl = update(xb, beta)
        if step % 20 == 0:
            print(f"{step:4d} recon {float(recon):8.3f} kl {float(kl):7.3f} beta {beta:.3f}")
    clock = time.perf_counter() - clock
    print("WORK", steps * batch)
    print("TRAIN_SECONDS", clock)


main()
