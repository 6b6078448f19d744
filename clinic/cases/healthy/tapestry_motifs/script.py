"""Variational autoencoder for tapestry motifs."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE, LATENT = 32, 12


def motifs(n, seed=23):
    rng = np.random.default_rng(seed)
    tile = rng.uniform(0, 1, size=(n, 8, 8, 1)).round()
    half = np.concatenate([tile, tile[:, :, ::-1]], axis=2)
    full = np.concatenate([half, half[:, ::-1]], axis=1)
    return full.repeat(2, 1).repeat(2, 2).astype("float32")


class MotifVAE(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([
            layers.Conv2D(48, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(96, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(2 * LATENT),
        ])
        self.decoder = keras.Sequential([
            layers.Dense(8 * 8 * 96, activation="relu"),
            layers.Reshape((8, 8, 96)),
            layers.Conv2DTranspose(48, 4, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(1, 4, strides=2, padding="same"),
        ])
        self.seen = keras.metrics.Mean(name="elbo")

    @property
    def metrics(self):
        return [self.seen]

    def call(self, x):
        mean, logvar = tf.split(self.encoder(x), 2, axis=-1)
        z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, logvar

    def train_step(self, data):
        with tf.GradientTape() as tape:
            logits, mean, logvar = self(data, training=True)
            pixel = tf.nn.sigmoid_cross_entropy_with_logits(labels=data, logits=logits)
            recon = tf.reduce_mean(tf.reduce_sum(pixel, axis=(1, 2, 3)))
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mean ** 2 - tf.exp(logvar), axis=1))
            loss = recon + kl
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.seen.update_state(loss)
        return {"elbo": self.seen.result()}


images = motifs(6400)
ds = tf.data.Dataset.from_tensor_slices(images).shuffle(6400).batch(64, drop_remainder=True).prefetch(2)
vae = MotifVAE()
vae.compile(optimizer=keras.optimizers.Adam(1e-3))
start = time.time()
vae.fit(ds, epochs=3, shuffle=False, verbose=2)
print("WORK", 3 * len(images))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
