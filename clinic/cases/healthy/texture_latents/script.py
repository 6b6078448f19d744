"""Convolutional VAE of fabric textures, annealed KL term, sizes 48 then 64 (two traces)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers


def textures(n, side, seed):
    rng = np.random.default_rng(seed)
    g = np.arange(side, dtype=np.float32)
    fx, fy = rng.uniform(0.2, 1.2, (2, n, 1, 1)).astype(np.float32)
    img = np.sin(fx * g[None, None]) * np.sin(fy * g[None, :, None])
    return (0.5 + 0.4 * img + rng.normal(0, 0.05, img.shape)).astype(np.float32)[..., None]


class TextureVAE(tf.keras.Model):
    def __init__(self, width=48, latent=8):
        super().__init__()
        self.down = [layers.Conv2D(width, 3, padding="same", activation="relu", strides=s) for s in (1, 2, 1)]
        self.stats = layers.Conv2D(2 * latent, 3, padding="same")
        self.up = [layers.Conv2D(width, 3, padding="same", activation="relu"), layers.UpSampling2D(),
                   layers.Conv2D(width, 3, padding="same", activation="relu")]
        self.out = layers.Conv2D(1, 3, padding="same")
        self.beta = tf.Variable(0.0, trainable=False)

    def call(self, x):
        h = x
        for layer in self.down:
            h = layer(h)
        mu, logvar = tf.split(self.stats(h), 2, -1)
        h = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
        for layer in self.up:
            h = layer(h)
        return self.out(h), mu, logvar


def train(model, opt, phases):
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            y, mu, logvar = model(x)
            kl = tf.reduce_mean(mu ** 2 + tf.exp(logvar) - 1 - logvar)
            loss = tf.reduce_mean(tf.square(x - y)) + model.beta * kl
        g = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(g, model.trainable_variables))
        return loss

    n, start = 0, time.perf_counter()
    for ds, epochs in phases:
        for e in range(epochs):
            model.beta.assign(min(1.0, 0.25 * (e + 1)) * 1e-3)
            for x in ds:
                loss = step(x)
                n += int(x.shape[0])
            print("size", x.shape[1], "epoch", e, "loss", round(float(loss), 5))
    return n, time.perf_counter() - start


if __name__ == "__main__":
    make = lambda side, n, b: tf.data.Dataset.from_tensor_slices(textures(n, side, side)).shuffle(n).batch(
        b, drop_remainder=True).prefetch(2)
    n, seconds = train(TextureVAE(), tf.keras.optimizers.Adam(1e-3),
                       [(make(48, 240, 24), 2), (make(64, 240, 24), 2)])
    print("WORK", n)
    print("TRAIN_SECONDS", seconds)
