"""Beta-VAE on rendered glyph-like blobs. KL weight is warmed up, free bits shrink."""
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass(frozen=True)
class Objective:
    kl: float
    free_bits: float


def objective_at(step, total):
    ramp = min(1.0, step / (0.9 * total))
    return Objective(kl=4.0 * ramp, free_bits=0.5 * (1.0 - ramp))


def draw_glyphs(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:20, 0:20].astype("float32")
    cx, cy = rng.uniform(4, 16, (2, n, 3, 1, 1)).astype("float32")
    w = rng.uniform(1.0, 3.0, (n, 3, 1, 1)).astype("float32")
    img = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / w ** 2).max(axis=1)
    return img[..., None].astype("float32")


def conv_encoder(latent):
    inp = keras.Input((20, 20, 1))
    h = layers.Conv2D(16, 3, strides=2, padding="same", activation="gelu")(inp)
    h = layers.Conv2D(32, 3, strides=2, padding="same", activation="gelu")(h)
    h = layers.Flatten()(h)
    return keras.Model(inp, [layers.Dense(latent)(h), layers.Dense(latent)(h)])


def conv_decoder(latent):
    inp = keras.Input((latent,))
    h = layers.Dense(5 * 5 * 32, activation="gelu")(inp)
    h = layers.Reshape((5, 5, 32))(h)
    h = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="gelu")(h)
    return keras.Model(inp, layers.Conv2DTranspose(1, 3, strides=2, padding="same")(h))


enc, dec = conv_encoder(8), conv_decoder(8)
opt = keras.optimizers.Adam(1e-3)
variables = enc.trainable_variables + dec.trainable_variables
opt.build(variables)


@tf.function
def elbo_step(x, goal):
    with tf.GradientTape() as tape:
        mu, logvar = enc(x, training=True)
        z = mu + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mu))
        rec = tf.reduce_mean(tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=dec(z, training=True)), [1, 2, 3]))
        kl = 0.5 * tf.reduce_mean(tf.exp(logvar) + mu ** 2 - 1.0 - logvar, axis=0)
        loss = rec + goal.kl * tf.reduce_sum(tf.maximum(kl, goal.free_bits))
    opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss, rec


total = 90
images = draw_glyphs(2048, 0)
ds = tf.data.Dataset.from_tensor_slices(images).shuffle(2048).repeat().batch(32, drop_remainder=True).prefetch(2)
for step, batch in enumerate(ds.take(total)):
    loss, rec = elbo_step(batch, objective_at(step, total))
    if step % 15 == 0:
        print(step, float(loss), float(rec))
