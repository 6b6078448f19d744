"""VAE on small crater maps; the KL weight and the step size follow a schedule."""
import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def crater_maps(n, side=16):
    rng = np.random.default_rng(0)
    yy, xx = np.mgrid[:side, :side]
    c = rng.uniform(3, side - 3, (n, 2, 1, 1))
    r = rng.uniform(1, 5, (n, 1, 1))
    d = np.hypot(yy - c[:, 0], xx - c[:, 1])
    return (1 / (1 + np.exp(-(r - d)))).reshape(n, -1).astype("float32")


def build(dim, latent):
    enc = keras.Sequential([keras.Input((dim,)), layers.Dense(160, activation="tanh"),
                            layers.Dense(96, activation="tanh"), layers.Dense(2 * latent)])
    dec = keras.Sequential([keras.Input((latent,)), layers.Dense(96, activation="tanh"),
                            layers.Dense(160, activation="tanh"), layers.Dense(dim)])
    return enc, dec


class Annealer:
    def __init__(self, epochs):
        self.epochs = epochs

    def beta(self, epoch):
        return min(1.0, 0.02 + epoch / self.epochs)


def trainer(enc, dec, latent):
    opt = keras.optimizers.Adam(1e-3)
    variables = enc.trainable_variables + dec.trainable_variables
    opt.build(variables)

    @tf.function
    def step(x, beta):
        with tf.GradientTape() as tape:
            mu, logvar = tf.split(enc(x, training=True), 2, axis=-1)
            z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
            logits = dec(z, training=True)
            rec = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(x, logits), -1)
            kl = -0.5 * tf.reduce_sum(1 + logvar - mu ** 2 - tf.exp(logvar), -1)
            loss = tf.reduce_mean(rec + beta * kl)
        grads = tape.gradient(loss, variables)
        opt.apply_gradients(zip(grads, variables))
        return loss

    return step


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=15)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--latent", type=int, default=8)
    a = p.parse_args()
    x = crater_maps(6400)
    enc, dec = build(x.shape[1], a.latent)
    step, plan = trainer(enc, dec, a.latent), Annealer(a.epochs)
    ds = tf.data.Dataset.from_tensor_slices(x).shuffle(6400).batch(a.batch, drop_remainder=True).cache().prefetch(4)
    seen, t0 = 0, time.time()
    for epoch in range(a.epochs):
        beta = plan.beta(epoch)
        for xb in ds:
            loss = step(xb, beta)
            seen += a.batch
        if epoch % 8 == 0:
            print(epoch, "beta %.2f" % beta, "loss", float(loss))
    spent = time.time() - t0
    print("WORK", seen)
    print("TRAIN_SECONDS %.2f" % spent)


main()
