"""Variational autoencoder for absorption spectra, KL term warmed up over the run."""
import time
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Warmup:
    epochs: int
    beta_max: float = 0.8
    floor: float = 0.02

    def at(self, epoch):
        frac = (epoch + 1) / self.epochs
        return {"beta": self.beta_max * frac, "free_bits": self.floor * (1.0 - frac)}


def make_spectra(n=1280, bins=120):
    rng = np.random.default_rng(5)
    grid = np.linspace(0, 1, bins)
    centre = rng.uniform(0.1, 0.9, (n, 3, 1))
    width = rng.uniform(0.01, 0.06, (n, 3, 1))
    height = rng.uniform(0.2, 1.0, (n, 3, 1))
    s = (height * np.exp(-(((grid - centre) / width) ** 2))).sum(1)
    return (s + 0.02 * rng.standard_normal(s.shape)).astype("float32")


LATENT = 6
EPOCHS = 48
encoder = keras.Sequential([
    layers.Input((120,)),
    layers.Dense(96, activation="relu"),
    layers.Dense(2 * LATENT),
])
decoder = keras.Sequential([
    layers.Input((LATENT,)),
    layers.Dense(96, activation="relu"),
    layers.Dense(120),
])
variables = encoder.trainable_variables + decoder.trainable_variables
opt = keras.optimizers.Adam(2e-3)
opt.build(variables)


@tf.function
def train_step(x, beta, free_bits):
    with tf.GradientTape() as tape:
        mean, logvar = tf.split(encoder(x, training=True), 2, axis=1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        rec = tf.reduce_sum(tf.square(decoder(z, training=True) - x), 1)
        kl = 0.5 * (tf.square(mean) + tf.exp(logvar) - 1.0 - logvar)
        kl = tf.reduce_sum(tf.maximum(kl, free_bits), 1)
        loss = tf.reduce_mean(rec + beta * kl)
    grads = tape.gradient(loss, variables)
    opt.apply_gradients(zip(grads, variables))
    return tf.reduce_mean(rec), tf.reduce_mean(kl)


spectra = make_spectra()
ds = tf.data.Dataset.from_tensor_slices(spectra).cache().shuffle(1280, seed=1).batch(128).prefetch(2)
schedule = Warmup(EPOCHS)

t0 = time.time()
for epoch in range(EPOCHS):
    weights = schedule.at(epoch)
    for batch in ds:
        rec, kl = train_step(batch, **weights)
    if epoch % 8 == 7:
        print("epoch %2d  beta %.2f  rec %.3f  kl %.3f" % (epoch + 1, weights["beta"], float(rec), float(kl)))
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
