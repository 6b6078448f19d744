import csv
import os
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BINS, LATENT, BATCH, EPOCHS = 256, 32, 128, 8


def spectra(n=50_000):
    rng = np.random.default_rng(2)
    grid = np.linspace(0, 1, BINS)
    centre = rng.uniform(0.2, 0.8, (n, 1))
    width = rng.uniform(0.01, 0.05, (n, 1))
    lines = np.exp(-((grid - centre) / width) ** 2)
    return (lines + 0.3 * grid + rng.normal(0, 0.02, (n, BINS))).astype("float32")


generator = keras.Sequential([
    keras.Input((LATENT,)),
    layers.Dense(128, activation="relu"),
    layers.Dense(256, activation="relu"),
    layers.Dense(BINS),
])
critic = keras.Sequential([
    keras.Input((BINS,)),
    layers.Dense(256, activation="leaky_relu"),
    layers.Dense(128, activation="leaky_relu"),
    layers.Dense(1),
])
g_opt = keras.optimizers.Adam(1e-4, beta_1=0.5)
d_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
g_opt.build(generator.trainable_variables)
d_opt.build(critic.trainable_variables)
bce = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(real):
    z = tf.random.normal((BATCH, LATENT))
    with tf.GradientTape() as d_tape, tf.GradientTape() as g_tape:
        fake = generator(z, training=True)
        real_score = critic(real, training=True)
        fake_score = critic(fake, training=True)
        d_loss = bce(tf.ones_like(real_score), real_score) + bce(tf.zeros_like(fake_score), fake_score)
        g_loss = bce(tf.ones_like(fake_score), fake_score)
    d_grads = d_tape.gradient(d_loss, critic.trainable_variables)
    g_grads = g_tape.gradient(g_loss, generator.trainable_variables)
    d_opt.apply_gradients(zip(d_grads, critic.trainable_variables))
    g_opt.apply_gradients(zip(g_grads, generator.trainable_variables))
    return {
        "d_loss": d_loss,
        "g_loss": g_loss,
        "real": tf.reduce_mean(real_score),
        "fake": tf.reduce_mean(fake_score),
        "d_norm": tf.linalg.global_norm(d_grads),
        "g_norm": tf.linalg.global_norm(g_grads),
    }


def run(path):
    ds = tf.data.Dataset.from_tensor_slices(spectra()).shuffle(10_000)
    ds = ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    step = 0
    with open(path, "w", newline="") as fh:
        writer = csv.writer(fh)
        writer.writerow(["step", "d_loss", "g_loss", "real", "fake", "d_norm", "g_norm"])
        for epoch in range(EPOCHS):
            for real in ds:
                stats = train_step(real)
                writer.writerow([step] + [float(v) for v in stats.values()])
                step += 1
            print(f"epoch {epoch}: d {float(stats['d_loss']):.3f} g {float(stats['g_loss']):.3f}")


with tempfile.TemporaryDirectory() as folder:
    run(os.path.join(folder, "log.csv"))
