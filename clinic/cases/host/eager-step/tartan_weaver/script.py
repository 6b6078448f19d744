"""A small GAN that weaves tartans (setts as 64 colour stripes)."""
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.utils.set_random_seed(40)
LATENT, STRIPES, BATCH = 16, 64, 64


def setts(count):
    rng = np.random.default_rng(40)
    knots = rng.integers(0, 4, (count, 16))
    half = np.repeat(knots, 2, axis=1)
    full = np.concatenate([half, half[:, ::-1]], axis=1)
    palette = np.array([[0.1, 0.3, 0.1], [0.1, 0.1, 0.4], [0.7, 0.1, 0.1], [0.9, 0.9, 0.8]])
    return (palette[full] * 2 - 1).astype("float32")


def make_generator():
    return keras.Sequential([
        keras.Input((LATENT,)),
        layers.Dense(16 * 24),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Reshape((16, 24)),
        layers.Conv1DTranspose(24, 4, strides=2, padding="same"),
        layers.BatchNormalization(),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv1DTranspose(16, 4, strides=2, padding="same"),
        layers.BatchNormalization(),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv1D(3, 5, padding="same", activation="tanh"),
    ])


def make_critic():
    return keras.Sequential([
        keras.Input((STRIPES, 3)),
        layers.Conv1D(16, 5, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv1D(24, 5, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1),
    ])


gen, critic = make_generator(), make_critic()
g_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
c_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
bce = keras.losses.BinaryCrossentropy(from_logits=True)


def train_step(real):
    z = tf.random.normal((BATCH, LATENT))
    with tf.GradientTape() as gt, tf.GradientTape() as ct:
        fake = gen(z, training=True)
        on_real = critic(real, training=True)
        on_fake = critic(fake, training=True)
        c_loss = bce(tf.ones_like(on_real), on_real) + bce(tf.zeros_like(on_fake), on_fake)
        g_loss = bce(tf.ones_like(on_fake), on_fake)
    g_grads = gt.gradient(g_loss, gen.trainable_variables)
    c_grads = ct.gradient(c_loss, critic.trainable_variables)
    g_opt.apply_gradients(zip(g_grads, gen.trainable_variables))
    c_opt.apply_gradients(zip(c_grads, critic.trainable_variables))
    return g_loss, c_loss


data = tf.data.Dataset.from_tensor_slices(setts(3200)).shuffle(3200, seed=1)
data = data.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
EPOCHS = 4
t0 = time.time()
for epoch in range(EPOCHS):
    for real in data:
        g_loss, c_loss = train_step(real)
    print("epoch %d  g %.3f  c %.3f" % (epoch, float(g_loss), float(c_loss)))
print("WORK", EPOCHS * 3200)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
